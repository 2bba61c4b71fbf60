// A libcuda.so.1 without a GPU: the functions of NVIDIA's driver that weft calls, over on_cpu. weft loads it
// in place of the driver's library (WEFT_CUDA names it). So everything from the Go of an operation to the
// launch of its kernel is the same as on a GPU. The memory of the device is apart from the host's, between
// pages that fault, and is filled with NaN. A module need not contain code: a kernel is found by its name. A
// stream does its work when somebody waits for it, and not before, so that a missing wait shows as other
// bits. If a call is one that a GPU's driver may or may not survive, or uses an object of one card in the
// context of another, the process ends with a line.
//
// The environment describes the machine. cuInit reads it:
//
//	ON_CPU_ORDER       how threads run: forward, backward, drawn, or drawn and a number to draw by, as
//	                   drawn7
//	ON_CPU_CARDS       the number of cards, 1
//	ON_CPU_MEMORY      bytes of a card's memory, 8 GB
//	ON_CPU_DRIVER      the version that cuDriverGetVersion returns, 13000
//	ON_CPU_CAPABILITY  the compute capability of the cards, 90
//	ON_CPU_IMAGE       the text with which a module must begin; without it a module needs no code
//	ON_CPU_EARLY       1: a copy from pinned memory is made at once, after all earlier work of its stream
//	ON_CPU_CACHE       bytes of a card's second-level cache, 50 MB
//	ON_CPU_PAGEABLE    1: cards read all of the host's memory, as by HMM
//	ON_CPU_FAIL        "cuMemAlloc_v2 3 2": the third call of that function fails with status 2;
//	                   "cuMemAlloc_v2 3 2 1": the third call on card 1. A status of 700 to 719 stays, as on
//	                   a GPU, until nobody holds the context. If a launch fails with it, the next call
//	                   returns it
#include "on_cpu.h"
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

typedef int result;
typedef unsigned long long address;
enum {
	OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_IMAGE = 200,
	INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, STICKY = 700, LAUNCH_FAILED = 719
};
static const struct {
	result status;
	const char *name, *text;
} errors[] = {
	{INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
	{INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	{NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
	{NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	{STICKY, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
};

// The kernels of the program. They are found by name.
struct kernel {
	const char *name;
	void (*run)(const void *args);
	size_t bytes; // the size of a launch's parameters
};
static std::vector<kernel> &kernels() {
	static std::vector<kernel> all;
	return all;
}
struct registered {
	registered(const char *name, void (*run)(const void *), size_t bytes) {
		kernels().push_back({name, run, bytes});
	}
};
#define REGISTER(name, call) \
	static const registered register_##name( \
	    #name, [](const void *p) { name(*(const call *)p); }, sizeof(call));
#include "kernels.cu"

static const size_t PAGE = 4096, FILL = 16 << 20;

static std::mutex mu; // guards what follows
static struct {
	int cards, driver, capability;
	size_t memory;
	on_cpu::order order;
	uint64_t seed;
	std::string fail, failing; // ON_CPU_FAIL, and the function that it names
	int until, status, on;     // the calls until it fails, its status then, and its card; −1: any card
} machine;
// A card. It is also the context of everything that is created on it.
static struct card {
	size_t used; // of its memory
	int retained, broken; // how many hold the context, and a status that stays
} cards[64];
static thread_local card *current; // the context of this thread of the system
struct allocation {
	size_t bytes;
	const card *of;
};
// allocations of cards, and pinned ones of the host, by their first address
static std::map<address, allocation> live, pinned;

[[noreturn]] __attribute__((format(printf, 1, 2))) static void misused(const char *what, ...) {
	va_list rest;
	va_start(rest, what);
	char text[512];
	vsnprintf(text, sizeof text, what, rest);
	fprintf(stderr, "libcuda-on-cpu: %s\n", text);
	_exit(134);
}

static const char *setting(const char *name, const char *otherwise) {
	const char *value = getenv(name);
	return value && *value ? value : otherwise;
}

// Ends the process unless an object of card `of` is used in the context of that card.
static card *must_be_here(const char *function, const char *what, const card *of) {
	if (!current)
		misused("%s: the thread has no context", function);
	if (of != current)
		misused("%s: the context is that of cuda:%td, and %s is of cuda:%td", function, current - cards, what,
		        of - cards);
	return current;
}

// The status that a call returns before it does anything; OK: it goes on. on is its card, or NULL.
static result before(const char *function, card *on) {
	std::lock_guard<std::mutex> hold(mu);
	int none = OK, &broken = on ? on->broken : none;
	const result now = broken;
	if (machine.failing != function || (machine.on >= 0 && on != &cards[machine.on]) || --machine.until)
		return now;
	if (machine.status < STICKY || machine.status > LAUNCH_FAILED)
		return machine.status;
	broken = machine.status;
	return machine.failing == "cuLaunchKernel" || machine.failing == "cuGraphLaunch" ? now : broken;
}
#define BEFORE_ON(card) \
	if (const result status = before(__func__, card)) \
	return status
#define BEFORE BEFORE_ON(must_be_here(__func__, "", current))
#define HERE(what) must_be_here(__func__, "the " #what, what->on)

// The allocation that contains all these bytes; NULL: there is none.
static const allocation *inside(address p, size_t bytes, const std::map<address, allocation> &live = ::live) {
	std::lock_guard<std::mutex> hold(mu);
	auto after = live.upper_bound(p);
	if (after == live.begin())
		return nullptr;
	--after;
	return p + bytes <= after->first + after->second.bytes ? &after->second : nullptr;
}
namespace on_cpu {
bool of_a_card(const void *p) { return inside((address)p, 1); }
} // namespace on_cpu
static void must_be_inside(const char *function, address p, size_t bytes) {
	const allocation *a = inside(p, bytes);
	if (!a)
		misused("%s: %zu bytes at %#llx are not within one allocation of the device", function, bytes, p);
	must_be_here(function, "an address", a->of);
}
static void must_be_host(const char *function, const void *p) {
	if (inside((address)p, 1))
		misused("%s: %p is on the device, not the host's", function, p);
}

// Allocates memory filled with NaN, between two pages that fault. A large allocation maps the same pages
// again and again, until they are written to.
static char *new_memory(size_t bytes) {
	char *m = (char *)mmap(nullptr, bytes + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
	                       -1, 0);
	if (m == MAP_FAILED)
		return nullptr;
	m += PAGE;
	static const int nan = [] {
		int f = memfd_create("nan", 0);
		const std::string ones(FILL, '\xff');
		return write(f, ones.data(), FILL) == (ssize_t)FILL ? f : -1;
	}();
	for (size_t at = 0; at < bytes; at += FILL)
		if (mmap(m + at, std::min(FILL, bytes - at), PROT_READ | PROT_WRITE,
		         MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, nan, 0) == MAP_FAILED)
			misused("memory: %m");
	return m;
}
// The size of so many bytes in whole pages.
static size_t whole_pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

// A stream, with the work that it has not begun.
struct stream {
	const card *on;
	std::deque<std::function<void()>> waiting;
	uint64_t asked, done;
	bool busy; // a thread is doing its next work
};
enum { DISABLE_TIMING = 2 };
struct event {
	const card *on;
	unsigned flags;
	stream *of;
	uint64_t number; // the number of the recorded work in its stream; 0: the event was not recorded
	double *at;      // the time in seconds when that work was done; NULL: the event has no time
};
struct function {
	const card *on;
	const kernel *runs;
};
struct module {
	const card *on;
	std::map<std::string, function> functions; // the functions that were looked up
};
static std::set<stream *> streams;
static std::mutex queues; // guards the streams' work
static std::condition_variable ended;
// Appends work to a stream.
static void ask(stream *s, std::function<void()> what) {
	std::lock_guard<std::mutex> hold(queues);
	s->waiting.push_back(what), s->asked++;
}
// Does the work of a stream up to a number.
static void await(stream *s, uint64_t number) {
	std::unique_lock<std::mutex> hold(queues);
	while (s && s->done < number) {
		if (s->busy) {
			ended.wait(hold);
			continue;
		}
		s->busy = true;
		const std::function<void()> next = std::move(s->waiting.front());
		s->waiting.pop_front();
		hold.unlock();
		next();
		hold.lock();
		s->busy = false, s->done++;
		ended.notify_all();
	}
}
static void await(stream *s) {
	std::unique_lock<std::mutex> hold(queues);
	const uint64_t all = s->asked;
	hold.unlock();
	await(s, all);
}
static void await_all(const card *on = nullptr) {
	std::unique_lock<std::mutex> hold(queues);
	const std::set<stream *> all = streams;
	hold.unlock();
	for (stream *s : all)
		if (!on || s->on == on)
			await(s);
}

// Handles a fault: a kernel touches a page that belongs to no allocation. Other faults go to the handlers
// that were installed before.
static struct sigaction others[2]; // of SIGSEGV, SIGBUS
static void fault(int signal, siginfo_t *info, void *context) {
	struct sigaction *before = &others[signal == SIGBUS];
	if (!on_cpu::running()) {
		if (before->sa_flags & SA_SIGINFO)
			before->sa_sigaction(signal, info, context);
		else
			sigaction(signal, before, nullptr); // the instruction faults once more
		return;
	}
	const address p = (address)info->si_addr;
	char what[128] = "no memory of the device";
	for (auto &[start, a] : live)
		if (p >= start + a.bytes && p - start - a.bytes < 2 * PAGE)
			snprintf(what, sizeof what, "%llu bytes past the end of an allocation of %zu",
			         p - start - a.bytes, a.bytes);
		else if (p < start && start - p < 2 * PAGE)
			snprintf(what, sizeof what, "%llu bytes before an allocation of %zu", start - p, a.bytes);
#ifdef __x86_64__
	const void *pc = (const void *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#else
	const void *pc = (const void *)((ucontext_t *)context)->uc_mcontext.pc;
#endif
	on_cpu::fail(nullptr, (const char *)pc + 1, "address %#llx is %s", p, what);
}

extern "C" {
// Tells weft that this is the library for tests, and whether a module needs no code.
int weft_on_cpu() { return !*setting("ON_CPU_IMAGE", ""); }

result cuInit(unsigned) {
	std::unique_lock<std::mutex> hold(mu);
	machine.cards = atoi(setting("ON_CPU_CARDS", "1"));
	machine.driver = atoi(setting("ON_CPU_DRIVER", "13000"));
	machine.capability = atoi(setting("ON_CPU_CAPABILITY", "90"));
	machine.memory = strtoull(setting("ON_CPU_MEMORY", "8000000000"), nullptr, 10);
	const std::string order = setting("ON_CPU_ORDER", "forward");
	machine.order = order == "forward"    ? on_cpu::FORWARD
	                : order == "backward" ? on_cpu::BACKWARD
	                                      : on_cpu::DRAWN;
	machine.seed = 42;
	if (machine.order == on_cpu::DRAWN && sscanf(order.c_str(), "drawn%lu", &machine.seed) != 1 &&
	    order != "drawn")
		misused("ON_CPU_ORDER=%s: forward, backward or drawn", order.c_str());
	const std::string fail = setting("ON_CPU_FAIL", "");
	if (fail != machine.fail) {
		char name[64] = "";
		machine.on = -1;
		if (sscanf(fail.c_str(), "%63s %d %d %d", name, &machine.until, &machine.status, &machine.on) < 3 &&
		    !fail.empty())
			misused("ON_CPU_FAIL=%s: a function, the number of a call, a status", fail.c_str());
		machine.fail = fail, machine.failing = name;
	}
	static const bool handles = [] {
		struct sigaction a = {};
		a.sa_sigaction = fault, a.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
		return !sigaction(SIGSEGV, &a, &others[0]) && !sigaction(SIGBUS, &a, &others[1]);
	}();
	if (!handles)
		misused("sigaction: %m");
	hold.unlock();
	BEFORE_ON(nullptr);
	return machine.cards ? OK : NO_DEVICE;
}
result cuDriverGetVersion(int *v) { return *v = atoi(setting("ON_CPU_DRIVER", "13000")), OK; }
result cuGetErrorName(int status, const char **text) {
	for (auto &e : errors)
		if (e.status == status)
			return *text = e.name, OK;
	return INVALID_VALUE;
}
result cuGetErrorString(int status, const char **text) {
	for (auto &e : errors)
		if (e.status == status)
			return *text = e.text, OK;
	return INVALID_VALUE;
}
result cuDeviceGetCount(int *n) { BEFORE_ON(nullptr); return *n = machine.cards, OK; }
result cuDeviceGet(int *d, int k) {
	BEFORE_ON(nullptr);
	return *d = k, k < 0 || k >= machine.cards ? INVALID_VALUE : OK;
}
result cuDeviceGetName(char *name, int n, int) {
	BEFORE_ON(nullptr);
	return snprintf(name, n, "CPU in place of a GPU"), OK;
}
result cuDeviceGetAttribute(int *v, int what, int) {
	BEFORE_ON(nullptr);
	switch (what) {
	case 16: return *v = 2, OK; // multiprocessors
	case 38: return *v = atoi(setting("ON_CPU_CACHE", "50000000")), OK;
	case 75: return *v = machine.capability / 10, OK;
	case 76: return *v = machine.capability % 10, OK;
	case 88: return *v = atoi(setting("ON_CPU_PAGEABLE", "0")), OK;
	}
	return INVALID_VALUE;
}
result cuDeviceGetUuid_v2(char uuid[16], int d) { BEFORE_ON(nullptr); return memset(uuid, d + 1, 16), OK; }
result cuDevicePrimaryCtxRetain(void **c, int d) {
	BEFORE_ON(&cards[d]);
	std::lock_guard<std::mutex> hold(mu);
	return cards[d].retained++, *c = &cards[d], OK;
}
result cuDevicePrimaryCtxRelease_v2(int d) { // also where it fails
	const result status = before(__func__, &cards[d]);
	std::lock_guard<std::mutex> hold(mu);
	if (!--cards[d].retained)
		cards[d].broken = OK;
	return status;
}
result cuCtxSetCurrent(void *c) {
	current = (card *)c;
	BEFORE;
	return OK;
}
result cuMemGetInfo_v2(size_t *free, size_t *total) {
	BEFORE;
	std::lock_guard<std::mutex> hold(mu);
	return *total = machine.memory, *free = machine.memory - current->used, OK;
}
result cuMemAlloc_v2(address *p, size_t n) {
	BEFORE;
	std::lock_guard<std::mutex> hold(mu);
	if (!n)
		return INVALID_VALUE;
	if (n > machine.memory - current->used)
		return OUT_OF_MEMORY;
	char *m = new_memory(whole_pages(n));
	if (!m)
		return OUT_OF_MEMORY;
	*p = (address)(m + (whole_pages(n) - n) / 256 * 256); // the end is near the page that faults
	live[*p] = {n, current}, current->used += n;
	return OK;
}
result cuMemFree_v2(address p) {
	BEFORE;
	await_all(current);
	std::lock_guard<std::mutex> hold(mu);
	auto it = live.find(p);
	if (it == live.end())
		misused("cuMemFree: %#llx is not the address of an allocation", p);
	const auto [n, of] = it->second;
	must_be_here(__func__, "an address", of);
	for (const unsigned char *c = (unsigned char *)p + n; (size_t)c % PAGE; c++)
		if (*c != 0xff)
			misused("a kernel wrote byte %zu of an allocation of %zu", (size_t)(c - (unsigned char *)p), n);
	munmap((char *)(p / PAGE * PAGE) - PAGE, whole_pages(n) + 2 * PAGE);
	current->used -= n;
	live.erase(it);
	return OK;
}
// If the memory is not pinned, the card has a copy of it when the call returns, unless it reads all of the
// host's memory.
result cuMemcpyHtoDAsync_v2(address to, const void *from, size_t n, stream *stream) {
	BEFORE;
	HERE(stream), must_be_inside(__func__, to, n), must_be_host(__func__, from);
	if (inside((address)from, n, pinned) || atoi(setting("ON_CPU_PAGEABLE", "0"))) {
		ask(stream, [=] { memcpy((void *)to, from, n); });
		if (atoi(setting("ON_CPU_EARLY", "0")))
			await(stream);
		return OK;
	}
	const std::string copy((const char *)from, n);
	return ask(stream, [=] { memcpy((void *)to, copy.data(), n); }), OK;
}
result cuMemcpyDtoHAsync_v2(void *to, address from, size_t n, stream *stream) {
	BEFORE;
	HERE(stream), must_be_inside(__func__, from, n), must_be_host(__func__, to);
	ask(stream, [=] { memcpy(to, (void *)from, n); });
	if (!inside((address)to, n, pinned))
		await(stream);
	return OK;
}
result cuMemcpyDtoDAsync_v2(address to, address from, size_t n, stream *stream) {
	BEFORE;
	HERE(stream), must_be_inside(__func__, from, n), must_be_inside(__func__, to, n);
	return ask(stream, [=] { memmove((void *)to, (void *)from, n); }), OK;
}
result cuMemHostAlloc(void **p, size_t n, unsigned) {
	BEFORE;
	*p = mmap(nullptr, whole_pages(n), PROT_READ | PROT_WRITE,
	          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (*p == MAP_FAILED)
		return OUT_OF_MEMORY;
	std::lock_guard<std::mutex> hold(mu);
	return pinned[(address)*p] = {n, current}, OK;
}
result cuMemFreeHost(void *p) {
	BEFORE;
	await_all();
	std::lock_guard<std::mutex> hold(mu);
	auto it = pinned.find((address)p);
	if (it == pinned.end())
		misused("cuMemFreeHost: %p is not the address of an allocation", p);
	munmap(p, whole_pages(it->second.bytes));
	pinned.erase(it);
	return OK;
}
result cuStreamCreate(stream **s, unsigned) {
	BEFORE;
	std::lock_guard<std::mutex> hold(queues);
	return *s = *streams.insert(new stream{current}).first, OK;
}
result cuStreamDestroy_v2(stream *stream) {
	BEFORE;
	HERE(stream), await(stream);
	std::lock_guard<std::mutex> hold(queues);
	streams.erase(stream);
	return delete stream, OK;
}
result cuStreamSynchronize(stream *stream) { BEFORE; return HERE(stream), await(stream), OK; }
result cuEventCreate(event **e, unsigned flags) {
	BEFORE;
	*e = new event{current, flags};
	if (!(flags & DISABLE_TIMING))
		(*e)->at = new double(-1);
	return OK;
}
result cuEventDestroy_v2(event *event) { BEFORE; return HERE(event), delete event->at, delete event, OK; }
result cuEventRecord(event *event, stream *stream) {
	BEFORE;
	HERE(event), HERE(stream);
	using namespace std::chrono;
	if (double *at = event->at)
		ask(stream, [=] { *at = duration<double>(steady_clock::now().time_since_epoch()).count(); });
	std::lock_guard<std::mutex> hold(queues);
	return event->of = stream, event->number = stream->asked, OK;
}
static event last_record(event *e) {
	std::lock_guard<std::mutex> hold(queues);
	return *e;
}
result cuEventSynchronize(event *event) {
	BEFORE;
	HERE(event);
	const auto now = last_record(event);
	return await(now.of, now.number), OK;
}
result cuEventElapsedTime(float *milliseconds, event *from, event *to) {
	BEFORE;
	HERE(from), HERE(to);
	if (!from->at || !to->at || !from->number || !to->number)
		return INVALID_HANDLE;
	if (*from->at < 0 || *to->at < 0)
		return NOT_READY;
	return *milliseconds = 1e3 * (*to->at - *from->at), OK;
}
result cuStreamWaitEvent(stream *stream, event *event, unsigned) {
	BEFORE;
	HERE(stream), HERE(event);
	const auto now = last_record(event);
	return ask(stream, [=] { await(now.of, now.number); }), OK;
}
result cuModuleLoadData(module **m, const void *image) {
	BEFORE;
	const char *begin = setting("ON_CPU_IMAGE", "");
	return *m = new module{current}, strncmp((const char *)image, begin, strlen(begin)) ? INVALID_IMAGE : OK;
}
result cuModuleUnload(module *module) { BEFORE; return HERE(module), delete module, OK; }
result cuModuleGetFunction(function **f, module *module, const char *name) {
	BEFORE;
	HERE(module);
	std::lock_guard<std::mutex> hold(mu);
	for (const kernel &k : kernels())
		if (!strcmp(k.name, name))
			return *f = &(module->functions[name] = {current, &k}), OK;
	return NOT_FOUND;
}
// A launch of a kernel, with a copy of its arguments.
struct launched {
	const kernel *k;
	std::string args;
	unsigned blocks, threads;
	void run() const {
		on_cpu::run(k->run, args.data(), blocks, threads, 0, blocks, machine.order, machine.seed, k->name);
	}
};
static launched launch_of(const char *caller, const function *function, const unsigned (&grid)[3],
                          const unsigned (&block)[3], const void *args) {
	must_be_here(caller, "the function", function->on);
	const kernel *k = function->runs;
	if (grid[1] != 1 || grid[2] != 1 || block[1] != 1 || block[2] != 1 || !grid[0] || grid[0] > 0x7fffffff ||
	    !block[0] || block[0] > on_cpu::MOST_THREADS)
		misused("%s: a launch of %u×%u×%u blocks of %u×%u×%u threads", k->name, grid[0], grid[1], grid[2],
		        block[0], block[1], block[2]);
	launched l{k, std::string((const char *)args, k->bytes), grid[0], block[0]};
	for (size_t at = 0; at + sizeof(address) <= l.args.size(); at += sizeof(address)) {
		address p;
		memcpy(&p, &l.args[at], sizeof p);
		if (const allocation *a = inside(p, 1))
			must_be_here(k->name, "an address", a->of);
	}
	return l;
}
// A kernel takes one struct. extra passes it as a GPU's driver expects: CU_LAUNCH_PARAM_BUFFER_POINTER, its
// address, …_SIZE, the address of its size, …_END.
result cuLaunchKernel(function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                      unsigned bz, unsigned, stream *stream, void **, void **extra) {
	BEFORE;
	if (!function)
		return INVALID_HANDLE;
	HERE(function), HERE(stream);
	if (!extra || extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4])
		return INVALID_VALUE;
	const kernel *k = function->runs;
	if (const size_t bytes = *(size_t *)extra[3]; bytes != k->bytes)
		misused("%s: a launch passes %zu bytes, and it takes %zu", k->name, bytes, k->bytes);
	const launched l = launch_of(__func__, function, {gx, gy, gz}, {bx, by, bz}, extra[1]);
	return ask(stream, [=] { l.run(); }), OK;
}
}
#include "graphs.h"
