// The part of the SCAMP5d kernel API that programs of analogue and 1-bit registers use, under its
// documented names, on a small ideal array: a second simulator for the tests of the C++ header.
// Macros are computed by what they come to, not by bus steps. Beyond the edge there are zeros.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <vector>

namespace array {

constexpr int WIDTH = 6;
constexpr int HEIGHT = 5;
constexpr int SIZE = WIDTH * HEIGHT;

using plane = std::vector<double>;

// Analogue registers: A to F, NEWS, PIX, IN.
inline std::vector<plane> values(9, plane(SIZE, 0.0));
// 1-bit registers: R0 to R12, FLAG, SELECT, RECT.
inline std::vector<std::vector<bool>> bits(16, std::vector<bool>(SIZE, false));
// Between scamp5_kernel_begin and scamp5_kernel_end.
inline bool in_kernel = false;

[[noreturn]] inline void fail(const char *what) {
    std::fprintf(stderr, "%s\n", what);
    std::exit(1);
}

inline void array_only() {
    if (!in_kernel) fail("an instruction of the array is outside of a kernel");
}

inline void controller_only() {
    if (in_kernel) fail("a statement of the controller is inside of a kernel");
}

}  // namespace array

namespace SCAMP5_PE {

enum direction_t { north, east, south, west };

// A register on the bus: one of the element, or the NEWS of its neighbour in a direction.
struct areg_t {
    int plane;
    int towards;  // -1: the element itself
};

struct dreg_t {
    int plane;
};

constexpr areg_t A{0, -1}, B{1, -1}, C{2, -1}, D{3, -1}, E{4, -1}, F{5, -1};
constexpr areg_t NEWS{6, -1}, PIX{7, -1}, IN{8, -1};
constexpr areg_t XN{6, north}, XE{6, east}, XS{6, south}, XW{6, west};

constexpr dreg_t R0{0}, R1{1}, R2{2}, R3{3}, R4{4}, R5{5}, R6{6}, R7{7}, R8{8}, R9{9}, R10{10};
constexpr dreg_t R11{11}, R12{12}, FLAG{13}, SELECT{14}, RECT{15};
constexpr dreg_t RF{0}, RS{1}, RW{2}, RN{3}, RE{4}, RP{12};
constexpr dreg_t S0{5}, S1{6}, S2{7}, S3{8}, S4{9}, S5{10}, S6{11};

// The element in a direction; -1 beyond the edge. Row 0 is northmost, column 0 westmost.
inline int neighbour(int at, int towards) {
    int row = at / array::WIDTH, column = at % array::WIDTH;
    row += (towards == south) - (towards == north);
    column += (towards == east) - (towards == west);
    bool inside = row >= 0 && row < array::HEIGHT && column >= 0 && column < array::WIDTH;
    return inside ? row * array::WIDTH + column : -1;
}

inline int opposite(int towards) { return (towards + 2) % 4; }

inline double seen(areg_t source, int at) {
    int from = source.towards < 0 ? at : neighbour(at, source.towards);
    return from < 0 ? 0.0 : array::values[source.plane][from];
}

inline bool flagged(int at) { return array::bits[FLAG.plane][at]; }

inline array::plane sum(std::initializer_list<areg_t> sources) {
    array::plane total(array::SIZE, 0.0);
    for (int at = 0; at < array::SIZE; at++) {
        for (areg_t source : sources) total[at] += seen(source, at);
    }
    return total;
}

// Values come onto the bus with the opposite sign, in equal shares.
inline void step(std::initializer_list<areg_t> receivers, std::initializer_list<areg_t> sources) {
    array::array_only();
    array::plane total = sum(sources);
    std::vector<array::plane> next = array::values;
    for (areg_t receiver : receivers) {
        for (int at = 0; at < array::SIZE; at++) {
            // Who writes here: the element itself, or the one that sees it in that direction.
            int writer = receiver.towards < 0 ? at : neighbour(at, opposite(receiver.towards));
            if (writer < 0) {
                next[receiver.plane][at] = 0.0;
            } else if (flagged(writer)) {
                next[receiver.plane][at] = 0.0 - total[writer] / double(receivers.size());
            }
        }
    }
    array::values = next;
}

template <class... Sources>
void bus(areg_t a, Sources... sources) { step({a}, {sources...}); }
template <class... Sources>
void bus2(areg_t a, areg_t b, Sources... sources) { step({a, b}, {sources...}); }
template <class... Sources>
void bus3(areg_t a, areg_t b, areg_t c, Sources... sources) { step({a, b, c}, {sources...}); }

template <class... Sources>
void where(Sources... sources) {
    array::array_only();
    array::plane total = sum({sources...});
    for (int at = 0; at < array::SIZE; at++) array::bits[FLAG.plane][at] = total[at] > 0.0;
}

inline void all() {
    array::array_only();
    array::bits[FLAG.plane].assign(array::SIZE, true);
}

// A register moved: every element gets what the one at the end of the way holds.
inline array::plane moved(const array::plane &from, std::initializer_list<direction_t> way) {
    array::plane now = from;
    for (direction_t towards : way) {
        array::plane next(array::SIZE, 0.0);
        for (int at = 0; at < array::SIZE; at++) {
            int other = neighbour(at, towards);
            next[at] = other < 0 ? 0.0 : now[other];
        }
        now = next;
    }
    return now;
}

// Factor times a plane plus another one.
inline array::plane mix(double factor, const array::plane &a, const array::plane &b) {
    array::plane out(array::SIZE);
    for (int at = 0; at < array::SIZE; at++) out[at] = factor * a[at] + b[at];
    return out;
}

inline array::plane times(double factor, const array::plane &a) {
    return mix(factor, a, array::plane(array::SIZE, 0.0));
}

inline array::plane of(areg_t register_) { return array::values[register_.plane]; }

// Macros are for elements that all have FLAG: under a mask their steps differ from their meaning.
struct result { areg_t to; array::plane value; };
inline void set(std::initializer_list<result> results) {
    array::array_only();
    for (int at = 0; at < array::SIZE; at++) {
        if (!flagged(at)) array::fail("a macro is used under a mask");
    }
    for (const result &each : results) array::values[each.to.plane] = each.value;
}

inline array::plane zero() { return array::plane(array::SIZE, 0.0); }

inline void res(areg_t y) { set({{NEWS, zero()}, {y, zero()}}); }
inline void res(areg_t y, areg_t z) { set({{NEWS, zero()}, {y, zero()}, {z, zero()}}); }
inline void mov(areg_t y, areg_t x) { set({{NEWS, times(-1, of(x))}, {y, of(x)}}); }
inline void add(areg_t y, areg_t a, areg_t b) {
    auto s = mix(1, of(a), of(b));
    set({{NEWS, times(-1, s)}, {y, s}});
}
inline void add(areg_t y, areg_t a, areg_t b, areg_t c) {
    auto s = mix(1, mix(1, of(a), of(b)), of(c));
    set({{NEWS, times(-1, s)}, {y, s}});
}
inline void sub(areg_t y, areg_t a, areg_t b) {
    set({{NEWS, times(-1, of(a))}, {y, mix(-1, of(b), of(a))}});
}
inline void neg(areg_t y, areg_t x) { set({{NEWS, zero()}, {y, times(-1, of(x))}}); }
inline void abs(areg_t y, areg_t x) {
    auto v = of(x);
    for (double &each : v) each = each < 0 ? -each : each;
    set({{NEWS, times(-1, of(x))}, {y, v}});
}
inline void divq(areg_t y, areg_t x) {
    set({{NEWS, times(-0.5, of(x))}, {y, times(0.5, of(x))}});
}
inline void div(areg_t y, areg_t z, areg_t t, areg_t x) {
    auto half = times(0.5, of(x)), minus = times(-0.5, of(x)), whole = of(x);
    set({{NEWS, minus}, {z, minus}, {t, whole}, {y, half}});
}
inline void div(areg_t y, areg_t z, areg_t x) { div(y, z, x, x); }
inline void diva(areg_t y, areg_t z, areg_t t) {
    auto half = times(0.5, of(y)), minus = times(-0.5, of(y));
    set({{NEWS, minus}, {z, minus}, {t, minus}, {y, half}});
}
// `there` is what the neighbour holds; a second direction leads on from there.
inline void move(areg_t y, const array::plane &there, std::initializer_list<direction_t> way) {
    auto near = moved(there, {*way.begin()});
    auto far = way.size() < 2 ? near : moved(near, {*(way.begin() + 1)});
    set({{NEWS, times(-1, near)}, {y, far}});
}
inline void movx(areg_t y, areg_t x, direction_t d) { move(y, of(x), {d}); }
inline void mov(areg_t y, areg_t x, direction_t d) { movx(y, x, d); }
inline void mov2x(areg_t y, areg_t x, direction_t d, direction_t e) { move(y, of(x), {d, e}); }
inline void addx(areg_t y, areg_t a, areg_t b, direction_t d) {
    move(y, mix(1, of(a), of(b)), {d});
}
inline void add2x(areg_t y, areg_t a, areg_t b, direction_t d, direction_t e) {
    move(y, mix(1, of(a), of(b)), {d, e});
}
inline void subx(areg_t y, areg_t a, direction_t d, areg_t b) {
    auto other = of(b);
    move(y, of(a), {d});
    array::values[y.plane] = mix(-1, other, of(y));
}
inline void sub(areg_t y, areg_t a, direction_t d, areg_t b) { subx(y, a, d, b); }
inline void sub2x(areg_t y, areg_t a, direction_t d, direction_t e, areg_t b) {
    auto other = of(b);
    move(y, of(a), {d, e});
    array::values[y.plane] = mix(-1, other, of(y));
}

inline void get_image(areg_t y) {
    auto pix = of(PIX);
    set({{NEWS, times(-0.5, pix)}, {PIX, zero()}, {y, times(0.5, pix)}});
}
inline void get_image(areg_t y, areg_t h) {
    auto pix = of(PIX);
    set({{NEWS, times(-0.5, pix)}, {PIX, zero()}, {h, times(-0.5, pix)}, {y, pix}});
}
inline void respix() { set({{PIX, zero()}}); }
inline void respix(areg_t y) { set({{PIX, zero()}, {NEWS, zero()}, {y, zero()}}); }
inline void getpix(areg_t y) { set({{NEWS, times(-1, of(PIX))}, {y, of(PIX)}}); }
inline void getpix(areg_t y, areg_t r) {
    set({{NEWS, times(-1, of(PIX))}, {y, mix(-1, of(r), of(PIX))}});
}
inline void getpix(areg_t y, areg_t h, areg_t r) {
    auto v = mix(-1, of(r), of(PIX));
    set({{NEWS, times(-0.5, v)}, {h, times(-0.5, v)}, {y, v}});
}

// 1-bit registers; FLAG does not gate them. RP is written only where RF is 1.
inline bool bit(dreg_t a, int at) { return array::bits[a.plane][at]; }

template <class Value>
void assign(std::initializer_list<dreg_t> targets, Value value) {
    auto next = array::bits;
    for (dreg_t d : targets) {
        for (int at = 0; at < array::SIZE; at++) {
            if (d.plane != RP.plane || bit(RF, at)) next[d.plane][at] = value(at);
        }
    }
    array::bits = next;
}

template <class Value>
void gate(std::initializer_list<dreg_t> targets, Value value) {
    array::array_only();
    assign(targets, value);
}

inline bool any(std::initializer_list<dreg_t> list, int at) {
    for (dreg_t each : list) {
        if (bit(each, at)) return true;
    }
    return false;
}

template <class... More>
void OR(dreg_t d, dreg_t a, dreg_t b, More... more) {
    gate({d}, [=](int at) { return any({a, b, more...}, at); });
}
template <class... More>
void NOR(dreg_t d, dreg_t a, dreg_t b, More... more) {
    gate({d}, [=](int at) { return !any({a, b, more...}, at); });
}
inline void NOT(dreg_t d, dreg_t a) { gate({d}, [=](int at) { return !bit(a, at); }); }
inline void MOV(dreg_t d, dreg_t a) { gate({d}, [=](int at) { return bit(a, at); }); }
template <class... More>
void SET(dreg_t a, More... more) { gate({a, more...}, [](int) { return true; }); }
template <class... More>
void CLR(dreg_t a, More... more) { gate({a, more...}, [](int) { return false; }); }
inline void AND(dreg_t d, dreg_t a, dreg_t b) {
    gate({d}, [=](int at) { return bit(a, at) && bit(b, at); });
}
inline void NAND(dreg_t d, dreg_t a, dreg_t b) {
    gate({d}, [=](int at) { return !(bit(a, at) && bit(b, at)); });
}
inline void XOR(dreg_t d, dreg_t a, dreg_t b) {
    gate({d}, [=](int at) { return bit(a, at) != bit(b, at); });
}
inline void IMP(dreg_t d, dreg_t a, dreg_t b) {
    gate({d}, [=](int at) { return !bit(a, at) || bit(b, at); });
}
inline void MUX(dreg_t d, dreg_t s, dreg_t a, dreg_t b) {
    gate({d}, [=](int at) { return bit(s, at) ? bit(a, at) : bit(b, at); });
}
inline void neighbours(dreg_t d, dreg_t a, bool beyond) {
    const dreg_t enables[4] = {RN, RE, RS, RW};
    gate({d}, [=](int at) {
        for (int towards = 0; towards < 4; towards++) {
            int other = neighbour(at, towards);
            if (bit(enables[towards], at) && (other < 0 ? beyond : bit(a, other))) return true;
        }
        return false;
    });
}
inline void DNEWS0(dreg_t d, dreg_t a) { neighbours(d, a, false); }
inline void DNEWS1(dreg_t d, dreg_t a) { neighbours(d, a, true); }
inline void REFRESH(dreg_t) { array::array_only(); }
inline void WHERE(dreg_t a) { gate({FLAG}, [=](int at) { return bit(a, at); }); }
inline void ALL() { all(); }

}  // namespace SCAMP5_PE

inline void scamp5_kernel_begin() {
    if (array::in_kernel) array::fail("a kernel begins in a kernel");
    array::in_kernel = true;
}

inline void scamp5_kernel_end() {
    if (!array::in_kernel) array::fail("a kernel ends that did not begin");
    array::in_kernel = false;
}

inline void scamp5_load_pattern(SCAMP5_PE::dreg_t d, int r, int c, int rx, int cx) {
    array::controller_only();
    SCAMP5_PE::assign({d}, [=](int at) {
        int row = at / array::WIDTH, column = array::WIDTH - 1 - at % array::WIDTH;
        return ((row ^ r) & ~rx & 255) == 0 && ((column ^ c) & ~cx & 255) == 0;
    });
}

inline void scamp5_select_pattern(int r, int c, int rx, int cx) {
    scamp5_load_pattern(SCAMP5_PE::SELECT, r, c, rx, cx);
}

inline void scamp5_load_in(int v) {
    array::controller_only();
    array::values[SCAMP5_PE::IN.plane].assign(array::SIZE, v);
}

inline void scamp5_load_in(SCAMP5_PE::areg_t y, int v) {
    array::controller_only();
    scamp5_load_in(v);
    array::in_kernel = true;
    SCAMP5_PE::mov(y, SCAMP5_PE::IN);
    array::in_kernel = false;
}
