/* SPDX-License-Identifier: MIT */
/* Platforms; see platform.h. */
#include "bench/predict/platform.h"

#include "common/base/numbers.h"
#include "common/device/link.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static ls_status refuse(const char *text, const char *why)
{
    return ls_fail(LS_CODE_USAGE, "option --platform", text,
                   "%s; valid are flat:latency=10us,bandwidth=1GB/s; "
                   "two-level:host=1us@10GB/s,net=10us@25Gbps; and FILE.xml of SimGrid",
                   why);
}

/* "1us@10GB/s", of `length` characters. */
static bool parse_level(const char *text, size_t length, ls_platform_level *out)
{
    char copy[64];
    uint64_t latency_ns;
    if (length >= sizeof copy)
        return false;
    memcpy(copy, text, length);
    copy[length] = 0;
    char *at = strchr(copy, '@');
    if (!at)
        return false;
    *at = 0;
    if (!ls_parse_duration(copy, &latency_ns) || !ls_parse_bandwidth(at + 1, &out->bytes_per_s) ||
        !(out->bytes_per_s > 0))
        return false;
    out->latency_ns = (double)latency_ns;
    return true;
}

static ls_status parse_two_levels(const char *text, const char *levels, ls_platform *out)
{
    static const char host[] = "host=", net[] = "net=";
    const char *comma = strchr(levels, ',');
    if (strncmp(levels, host, sizeof host - 1) != 0 || !comma ||
        strncmp(comma + 1, net, sizeof net - 1) != 0)
        return refuse(text, "two-level has two parts, host= and net=");
    levels += sizeof host - 1;
    if (!parse_level(levels, (size_t)(comma - levels), &out->device))
        return refuse(text, "host= is no TIME@RATE above 0");
    comma += sizeof net;
    if (!parse_level(comma, strlen(comma), &out->net))
        return refuse(text, "net= is no TIME@RATE above 0");
    return LS_OK;
}

ls_status ls_platform_parse(const char *text, ls_platform *out)
{
    static const char flat[] = "flat:", two[] = "two-level:", xml[] = ".xml";
    const size_t length = strlen(text);
    *out = (ls_platform){.text = text};
    if (strncmp(text, flat, sizeof flat - 1) == 0) {
        ls_link link;
        ls_status status = ls_link_parse(text + sizeof flat - 1, &link);
        if (status) {
            ls_status_free(status);
            return refuse(text, "flat has a latency, a bandwidth above 0, or both");
        }
        out->kind = LS_PLATFORM_FLAT;
        out->device = (ls_platform_level){(double)link.latency_ns, link.bytes_per_s};
        return LS_OK;
    }
    if (strncmp(text, two, sizeof two - 1) == 0) {
        out->kind = LS_PLATFORM_TWO_LEVEL;
        return parse_two_levels(text, text + sizeof two - 1, out);
    }
    if (length < sizeof xml || strcmp(text + length - sizeof xml + 1, xml) != 0)
        return refuse(text, "it is no platform");
    out->kind = LS_PLATFORM_FILE;
    FILE *file = fopen(text, "r");
    if (!file)
        return ls_fail(LS_CODE_MISSING, "option --platform", text,
                       "cannot be read; name a platform file of SimGrid");
    struct stat facts;
    const bool regular = fstat(fileno(file), &facts) == 0 && S_ISREG(facts.st_mode);
    fclose(file);
    if (!regular)
        return ls_fail(LS_CODE_MISSING, "option --platform", text,
                       "is no file; name a platform file of SimGrid");
    return LS_OK;
}
