// SPDX-License-Identifier: MIT
// What lockstep-simgrid reads, and how it ends where that is wrong; see lockstep_simgrid.cpp.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace
{

enum { BAD_INPUT = 3, NEVER_ENDS = 4, BROKEN = 5 };

[[noreturn]] void fail(int code, const std::string &why)
{
    std::fprintf(stderr, "lockstep-simgrid: %s\n", why.c_str());
    std::fflush(nullptr);
    std::_Exit(code); // SimGrid's own end would wait for what never ends
}

// ---- Input --------------------------------------------------------------------------------------

struct Node {
    double amount; // ns, or bytes
    int from, to;  // devices; -1: a delay
    double rounds;
    size_t factor; // of a delay, from 1; 0: none
    size_t core;   // of a delay, from 1; 0: none
    unsigned waits = 0;
};

class Input
{
    std::string text;
    const char *at = nullptr;

  public:
    void read()
    {
        char room[1 << 16];
        for (size_t n; (n = std::fread(room, 1, sizeof room, stdin)) > 0;)
            text.append(room, n);
        at = text.c_str();
    }
    std::string word()
    {
        at += std::strspn(at, " \n");
        const size_t length = std::strcspn(at, " \n");
        std::string out(at, length);
        at += length;
        return out;
    }
    std::string line()
    {
        at += std::strspn(at, " ");
        const size_t length = std::strcspn(at, "\n");
        std::string out(at, length);
        at += length;
        return out;
    }
    void expect(const char *name)
    {
        const std::string found = word();
        if (found != name)
            fail(BAD_INPUT, "input: '" + found + "' where '" + name + "' was expected");
    }
    double number()
    {
        char *end;
        const double value = std::strtod(at, &end);
        if (end == at || !std::isfinite(value) || value < 0)
            fail(BAD_INPUT, "input: '" + word() + "' is no number from 0");
        at = end;
        return value;
    }
    size_t count(size_t most)
    {
        const double value = number();
        if (value > static_cast<double>(most))
            fail(BAD_INPUT,
                 "input: " + std::to_string(value) + " is above " + std::to_string(most));
        return static_cast<size_t>(value);
    }
};

} // namespace
