// Counts the traffic of kernels that run on a CPU in place of a GPU. The unit is a sector: the 32 bytes that
// a GPU's memory and its caches move at a time. GCC calls the functions below for each load and store of code
// that it compiles with -fsanitize=thread. The library of that name is not used. Each launch adds a line to
// the file that ON_CPU_TRAFFIC names: the name of the kernel, and the bytes of the sectors that it
//
//	asked for, by loads: a load of a warp asks once for each sector that its lanes touch;
//	got from beyond the first-level cache: the sectors that the warp's own part of it does not have;
//	stored: a store of a warp writes each sector that its lanes touch.
//
// Here the lanes of a warp run one after the other. Accesses that a GPU makes at once are recognised by the
// instruction, and by how often the lane has executed it: the n-th load of each lane at an instruction is one
// load of the warp.
#include "on_cpu.h"
#include <algorithm>
#include <stdio.h>
#include <stdlib.h>
#include <unordered_map>
#include <vector>

namespace on_cpu {
bool of_a_card(const void *p); // whether p is in the memory of a card

// A warp's part of the first-level cache of a processor with all its warps: an A10 has 128 KB for 48 warps,
// an A100 192 KB and an H100 256 KB for 64.
enum { SECTOR = 32, PART = 2048, PAGE = 4096 };

struct access {
	bool stores;
	std::vector<uintptr_t> sectors;
};
struct accesses { // of a warp in a block, in the order of the first lane to make them
	std::vector<access> all;
	std::unordered_map<uint64_t, size_t> by; // by instruction and number: the index in `all`
	std::unordered_map<uint64_t, uint64_t> times; // by instruction and lane: how often it was executed
};
static thread_local accesses warps[MOST_THREADS / 32];
static thread_local moment block; // the block of these accesses
static thread_local uint64_t asked, got, stored; // of the launch, in sectors
static thread_local std::unordered_map<uintptr_t, bool> pages; // whether each page is a card's

// Counts the accesses of the warps of a block.
static void count() {
	std::vector<uintptr_t> cache; // the least recently used comes first
	for (accesses &w : warps) {
		cache.clear();
		for (const access &a : w.all) {
			if (a.stores)
				stored += a.sectors.size();
			else
				asked += a.sectors.size();
			for (const uintptr_t s : a.sectors) {
				const auto has = std::find(cache.begin(), cache.end(), s);
				if (has != cache.end())
					cache.erase(has);
				else if (!a.stores)
					got++;
				if (has == cache.end() && cache.size() == PART / SECTOR)
					cache.erase(cache.begin());
				cache.push_back(s);
			}
		}
		w = {};
	}
}

// Records a load or store of `bytes` bytes at p by an instruction of a kernel.
static void touched(const void *p, size_t bytes, bool stores, const void *instruction) {
	static thread_local bool asks;
	if (!running() || asks)
		return;
	const thread *t = on_cpu_now;
	const uintptr_t at = (uintptr_t)p;
	const auto [page, is_new] = pages.try_emplace(at / PAGE);
	if (is_new)
		// the accesses of that function are not counted
		asks = true, page->second = of_a_card(p), asks = false;
	if (!page->second)
		return;
	if (const moment now = t->when >> BLOCK; now != block)
		count(), block = now;
	accesses &w = warps[t->number / 32];
	const uint64_t place = (uint64_t)instruction << 2 | (uint64_t)stores, lane = (uint64_t)t->number % 32;
	const uint64_t time = w.times[place << 5 | lane]++;
	const auto [k, first] = w.by.try_emplace(place << 20 ^ time, w.all.size());
	if (first)
		w.all.push_back({stores, {}});
	std::vector<uintptr_t> &sectors = w.all[k->second].sectors;
	for (uintptr_t s = at / SECTOR; s <= (at + bytes - 1) / SECTOR; s++)
		if (std::find(sectors.rbegin(), sectors.rend(), s) == sectors.rend())
			sectors.push_back(s);
}

void launched(const char *name) {
	count();
	if (const char *file = getenv("ON_CPU_TRAFFIC")) {
		FILE *f = fopen(file, "a");
		if (!f || fprintf(f, "%s %lu %lu %lu\n", name, asked * SECTOR, got * SECTOR, stored * SECTOR) < 0 ||
		    fclose(f))
			fprintf(stderr, "libcuda-on-cpu: %s: %m\n", file), abort();
	}
	asked = got = stored = 0;
	pages.clear();
}
} // namespace on_cpu

#define TOUCH(bytes) \
	void __tsan_read##bytes(void *p) { on_cpu::touched(p, bytes, false, __builtin_return_address(0)); } \
	void __tsan_write##bytes(void *p) { on_cpu::touched(p, bytes, true, __builtin_return_address(0)); }
extern "C" {
TOUCH(1)
TOUCH(2)
TOUCH(4)
TOUCH(8)
TOUCH(16)
void __tsan_read_range(void *p, size_t n) { on_cpu::touched(p, n, false, __builtin_return_address(0)); }
void __tsan_write_range(void *p, size_t n) { on_cpu::touched(p, n, true, __builtin_return_address(0)); }
void __tsan_vptr_update(void **, void *) {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit(void *) {}
void __tsan_init() {}
unsigned char __tsan_atomic8_load(const volatile unsigned char *p, int) {
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
}
