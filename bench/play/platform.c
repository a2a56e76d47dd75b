/* SPDX-License-Identifier: MIT */
/* Platforms; see platform.h. */
#include "bench/play/platform.h"

#include "common/base/numbers.h"
#include "common/device/link.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Shipped ones. Latencies: of a message in NCCL's table (src/graph/tuning.cc, protocol simple). */
static const struct shipped {
    const char *name, *text, *source;
} shipped[] = {
    {"25gbe-4gpu", "two-level:host=5.7us@12GB/s,net=9.6us@25Gbps",
     "servers of 4 Pascal GPUs on PCIe, 25 Gbit/s RoCE (Horovod, docs/benchmarks.rst); "
     "--devices-per-host 4"},
    {"100gib-8gpu", "two-level:host=3.4us@130GB/s,net=9.6us@100Gbps",
     "servers of 8 V100 on NVLink, one 100 Gbit/s InfiniBand port (Oneflow-Inc/DLPerf); "
     "--devices-per-host 8"},
    {"dgx-a100", "two-level:host=3.4us@300GB/s,net=9.6us@200GB/s",
     "DGX A100: 8 A100 on NVSwitch, 8 ports of 200 Gbit/s InfiniBand (NVIDIA, DGX A100 data "
     "sheet); --devices-per-host 8"},
};
enum { SHIPPED = sizeof shipped / sizeof *shipped };

bool ls_platform_list(const char *text, FILE *stream)
{
    if (!text || strcmp(text, "list") != 0)
        return false;
    for (size_t i = 0; i < SHIPPED; i++)
        fprintf(stream, "%s\n  %s\n  %s\n", shipped[i].name, shipped[i].text, shipped[i].source);
    return true;
}

#define FLAT      "flat:latency=10us,bandwidth=1GB/s"
#define TWO_LEVEL "two-level:host=1us@10GB/s,net=10us@25Gbps"

static ls_status refuse(const char *text, const char *why, const char *example)
{
    return ls_fail(LS_CODE_USAGE, "option --platform", text,
                   "%s; use for example --platform %s (--platform list prints others)", why,
                   example);
}

/* "1us@10GB/s", of `length` characters. */
static bool parse_level(const char *text, size_t length, ls_platform_level *out)
{
    char copy[64];
    if (length >= sizeof copy)
        return false;
    memcpy(copy, text, length);
    copy[length] = 0;
    char *at = strchr(copy, '@');
    if (!at)
        return false;
    *at = 0;
    return ls_parse_time(copy, &out->latency_ns) && ls_parse_bandwidth(at + 1, &out->bytes_per_s) &&
           out->bytes_per_s > 0;
}

static ls_status parse_two_levels(const char *text, const char *levels, ls_platform *out)
{
    static const char host[] = "host=", net[] = "net=";
    const char *comma = strchr(levels, ',');
    if (strncmp(levels, host, sizeof host - 1) != 0 || !comma ||
        strncmp(comma + 1, net, sizeof net - 1) != 0)
        return refuse(text, "'two-level' needs two parts, host= and net=", TWO_LEVEL);
    levels += sizeof host - 1;
    if (!parse_level(levels, (size_t)(comma - levels), &out->device))
        return refuse(text, "host= needs TIME@RATE, both above 0", TWO_LEVEL);
    comma += sizeof net;
    if (!parse_level(comma, strlen(comma), &out->net))
        return refuse(text, "net= needs TIME@RATE, both above 0", TWO_LEVEL);
    return LS_OK;
}

/* "latency=10us,bandwidth=1GB/s", one or both; as --link, and with fractions of a nanosecond. */
static ls_status parse_flat(const char *text, const char *link, ls_platform *out)
{
    ls_link checked;
    char copy[96];
    ls_status status = ls_link_parse(link, &checked);
    if (status || strcmp(link, "none") == 0) {
        ls_status_free(status);
        return refuse(text, "'flat' needs latency=TIME, or bandwidth=RATE above 0, or both", FLAT);
    }
    out->device.bytes_per_s = checked.bytes_per_s;
    snprintf(copy, sizeof copy, "%s", link);
    char *rest = NULL;
    for (char *part = strtok_r(copy, ",", &rest); part; part = strtok_r(NULL, ",", &rest))
        if (strncmp(part, "latency=", 8) == 0 && !ls_parse_time(part + 8, &out->device.latency_ns))
            return refuse(text, "the value of latency= is not a time", FLAT);
    return LS_OK;
}

static ls_status check_file(const char *text)
{
    FILE *file = fopen(text, "r");
    if (!file)
        return ls_fail(
            LS_CODE_MISSING, "option --platform", text,
            "this file cannot be read; name a platform file of SimGrid that this process can read");
    struct stat facts;
    const bool regular = fstat(fileno(file), &facts) == 0 && S_ISREG(facts.st_mode);
    fclose(file);
    return regular ? LS_OK
                   : ls_fail(LS_CODE_MISSING, "option --platform", text,
                             "this is not a file; name a platform file of SimGrid");
}

ls_status ls_platform_parse(const char *text, ls_platform *out)
{
    static const char flat[] = "flat:", two[] = "two-level:", xml[] = ".xml";
    const char *meant = text;
    for (size_t i = 0; i < SHIPPED; i++)
        if (strcmp(text, shipped[i].name) == 0)
            meant = shipped[i].text;
    const size_t length = strlen(meant);
    *out = (ls_platform){.text = text};
    if (strncmp(meant, flat, sizeof flat - 1) == 0) {
        out->kind = LS_PLATFORM_FLAT;
        out->link = meant + sizeof flat - 1;
        return parse_flat(text, out->link, out);
    }
    if (strncmp(meant, two, sizeof two - 1) == 0) {
        out->kind = LS_PLATFORM_TWO_LEVEL;
        return parse_two_levels(text, meant + sizeof two - 1, out);
    }
    if (length < sizeof xml || strcmp(text + length - sizeof xml + 1, xml) != 0)
        return refuse(text, "this is not a platform",
                      FLAT ", or " TWO_LEVEL ", or a SimGrid FILE.xml");
    out->kind = LS_PLATFORM_FILE;
    return check_file(text);
}

ls_platform_level ls_platform_path(const ls_platform *p, int devices_per_host, int from, int to)
{
    ls_platform_level both = p->device;
    if (p->kind != LS_PLATFORM_TWO_LEVEL || from / devices_per_host == to / devices_per_host)
        return both;
    both.latency_ns += p->net.latency_ns;
    if (p->net.bytes_per_s < both.bytes_per_s)
        both.bytes_per_s = p->net.bytes_per_s;
    return both;
}

double ls_platform_message_ns(const ls_platform *platform, int devices_per_host, int from, int to,
                              double bytes)
{
    static const double of_file_ns = 100e3;
    if (platform->kind == LS_PLATFORM_FILE)
        return of_file_ns;
    const ls_platform_level net = ls_platform_path(platform, devices_per_host, from, to);
    return net.latency_ns + (net.bytes_per_s > 0 ? bytes * 1e9 / net.bytes_per_s : 0);
}

ls_wires ls_platform_wires(const ls_platform *p)
{
    return (ls_wires){
        .device = p->device, .host = p->net, .hosts = p->kind == LS_PLATFORM_TWO_LEVEL};
}
