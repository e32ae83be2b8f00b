// Runs a kernel on the registers that the standard input gives, and prints them all.
#pragma once
#include "scamp5.hpp"

// Numbers of a register: its elements, row by row, the first row northmost.
inline void read_registers() {
    for (auto &plane : array::values) {
        for (double &value : plane) {
            if (std::scanf("%lf", &value) != 1) array::fail("a number is missing");
        }
    }
    for (auto &plane : array::bits) {
        for (int at = 0; at < array::SIZE; at++) {
            int value = 0;
            if (std::scanf("%d", &value) != 1) array::fail("a bit is missing");
            plane[at] = value != 0;
        }
    }
}

inline void print_registers() {
    for (const auto &plane : array::values) {
        for (double value : plane) std::printf("%.17g ", value);
    }
    for (const auto &plane : array::bits) {
        for (bool value : plane) std::printf("%d ", value ? 1 : 0);
    }
    std::printf("\n");
}
