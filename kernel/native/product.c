// Dense products z = x·w [+ z] by oneDNN. Each runs on the thread that calls it.
#include "weft.h"
#include <dnnl.h>
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if DNNL_VERSION_MAJOR != 2
#error "weft is written for oneDNN 2: install libdnnl-dev of Debian 12"
#endif

_Static_assert((int)WEFT_ONEDNN_MEMORY == (int)dnnl_out_of_memory,
               "the status of a product that lacks memory");

// Returns from the function if the call fails.
#define TRY(call) \
	do { \
		dnnl_status_t status_of_call = (call); \
		if (status_of_call != dnnl_success) \
			return status_of_call; \
	} while (0)

void weft_onednn_version(int v[3]) {
	const dnnl_version_t *d = dnnl_version();
	v[0] = d->major;
	v[1] = d->minor;
	v[2] = d->patch;
}

int weft_onednn_can_multiply(enum weft_products by) {
	const int isa = by == WEFT_OF_TILES ? dnnl_cpu_isa_avx512_core_amx : dnnl_cpu_isa_avx512_core_bf16;
	return by == WEFT_OF_FLOATS || (dnnl_get_effective_cpu_isa() & isa) == isa;
}

void weft_onednn_without_tiles(void) {
	const char *isa = getenv("ONEDNN_MAX_CPU_ISA");
	if (!isa)
		isa = getenv("DNNL_MAX_CPU_ISA");
	if (!isa || strstr(isa, "AMX") || !(strstr(isa, "AVX") || strstr(isa, "SSE"))) // a lower one stays
		dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
}

// Limits OpenMP to the calling thread. The setting is one thread's: without it each thread that ever
// multiplies would keep a team of its own.
static void alone(void) { omp_set_num_threads(1); }

struct weft_onednn {
	int status; // of a call that failed; 0: all succeeded
	int64_t rows, in, out;
	int accumulate;
	enum weft_type x_type, z_type; // the types that oneDNN reads and writes
	dnnl_memory_desc_t x, w, packed, z, scratch;
	dnnl_primitive_attr_t attributes;
	dnnl_primitive_desc_t multiply_description, pack_description;
	dnnl_primitive_t multiply, pack;
};

static pthread_once_t started = PTHREAD_ONCE_INIT;
static dnnl_engine_t cpu; // NULL if oneDNN has none: then each function that takes it returns an error
static void start(void) { dnnl_engine_create(&cpu, dnnl_cpu, 0); }

// Describes a matrix of rows × cols numbers.
static dnnl_status_t describe(dnnl_memory_desc_t *d, int64_t rows, int64_t cols, enum weft_type type,
                              dnnl_format_tag_t layout) {
	return dnnl_memory_desc_init_by_tag(d, 2, (dnnl_dims_t){rows, cols},
	                                    type == WEFT_BFLOAT16 ? dnnl_bf16 : dnnl_f32, layout);
}

static dnnl_status_t set_attributes(dnnl_primitive_attr_t a, int accumulate) {
	// each thread has its own scratch
	TRY(dnnl_primitive_attr_set_scratchpad_mode(a, dnnl_scratchpad_mode_user));
	if (!accumulate)
		return dnnl_success;
	dnnl_post_ops_t sum;
	TRY(dnnl_post_ops_create(&sum));
	dnnl_status_t status = dnnl_post_ops_append_sum(sum, 1.0f);
	if (status == dnnl_success)
		status = dnnl_primitive_attr_set_post_ops(a, sum);
	dnnl_post_ops_destroy(sum);
	return status;
}

// Creates the primitives of p. oneDNN caches them, so that a process makes those of a shape once.
static dnnl_status_t make_primitives(weft_onednn *p, int transposed) {
	dnnl_memory_desc_t any;
	dnnl_matmul_desc_t d;
	TRY(describe(&p->x, p->rows, p->in, p->x_type, dnnl_ab));
	TRY(describe(&p->w, p->in, p->out, WEFT_FLOAT32, transposed ? dnnl_ba : dnnl_ab));
	TRY(describe(&p->z, p->rows, p->out, p->z_type, dnnl_ab));
	TRY(describe(&any, p->in, p->out, p->x_type, dnnl_format_tag_any));
	TRY(dnnl_primitive_attr_create(&p->attributes));
	TRY(set_attributes(p->attributes, p->accumulate));
	TRY(dnnl_matmul_desc_init(&d, &p->x, &any, NULL, &p->z));
	TRY(dnnl_primitive_desc_create(&p->multiply_description, &d, p->attributes, cpu, NULL));
	TRY(dnnl_primitive_create(&p->multiply, p->multiply_description));
	p->packed = *dnnl_primitive_desc_query_md(p->multiply_description, dnnl_query_weights_md, 0);
	p->scratch = *dnnl_primitive_desc_query_md(p->multiply_description, dnnl_query_scratchpad_md, 0);
	// this primitive needs no scratch
	TRY(dnnl_reorder_primitive_desc_create(&p->pack_description, &p->w, cpu, &p->packed, cpu, NULL));
	return dnnl_primitive_create(&p->pack, p->pack_description);
}

int weft_onednn_new(weft_onednn **product, int64_t rows, int64_t in, int64_t out, int transposed,
                    int accumulate, enum weft_type x_type, enum weft_type z_type) {
	weft_onednn *p = *product = calloc(1, sizeof *p);
	if (!p)
		return WEFT_ONEDNN_MEMORY;
	pthread_once(&started, start);
	alone();
	p->rows = rows;
	p->in = in;
	p->out = out;
	p->accumulate = accumulate;
	p->x_type = x_type;
	p->z_type = z_type;
	return make_primitives(p, transposed);
}

int64_t weft_onednn_packed_bytes(const weft_onednn *p) { return dnnl_memory_desc_get_size(&p->packed); }

void weft_onednn_free(weft_onednn *p) {
	if (!p)
		return;
	dnnl_primitive_destroy(p->multiply);
	dnnl_primitive_destroy(p->pack);
	dnnl_primitive_desc_destroy(p->multiply_description);
	dnnl_primitive_desc_destroy(p->pack_description);
	dnnl_primitive_attr_destroy(p->attributes);
	free(p);
}

// A run of a primitive: its stream, and its arguments as oneDNN's memories.
enum { ARGUMENTS = 4 };

typedef struct {
	dnnl_stream_t stream;
	dnnl_exec_arg_t args[ARGUMENTS];
	int count;
} execution;

static dnnl_status_t argument(execution *e, int name, const dnnl_memory_desc_t *d, const void *data) {
	dnnl_exec_arg_t *a = &e->args[e->count];
	a->arg = name;
	TRY(dnnl_memory_create(&a->memory, d, cpu, (void *)data));
	e->count++;
	return dnnl_success;
}

static dnnl_status_t execute(execution *e, dnnl_primitive_t primitive) {
	TRY(dnnl_primitive_execute(primitive, e->stream, e->count, e->args));
	return dnnl_stream_wait(e->stream);
}

static int end(execution *e, dnnl_status_t status) {
	for (int i = 0; i < e->count; i++)
		dnnl_memory_destroy(e->args[i].memory);
	dnnl_stream_destroy(e->stream);
	return status;
}

static dnnl_status_t pack(const weft_onednn *p, const float *w, void *packed, execution *e) {
	TRY(dnnl_stream_create(&e->stream, cpu, dnnl_stream_default_flags));
	TRY(argument(e, DNNL_ARG_FROM, &p->w, w));
	TRY(argument(e, DNNL_ARG_TO, &p->packed, packed));
	return execute(e, p->pack);
}

int weft_onednn_status(weft_onednn *p) { return __atomic_exchange_n(&p->status, 0, __ATOMIC_RELAXED); }

// Keeps the status of a call that failed, until weft_onednn_status returns it.
static void tell(weft_onednn *p, int status) {
	if (status)
		__atomic_store_n(&p->status, status, __ATOMIC_RELAXED);
}

void weft_product_pack_run(const void *args, int64_t lo, int64_t hi) {
	const weft_product_pack_args *a = args;
	execution e = {0};
	alone();
	tell(a->product, end(&e, pack(a->product, a->w, a->packed, &e)));
}

// z = x for n numbers. Whole cache lines are written past the caches, which would read each line before it is
// written.
static void copy_past_caches(float *z, const float *x, int64_t n) {
	int64_t i = 0;
#if defined(__SSE2__)
	for (; i < n && (uintptr_t)(z + i) % 64; i++)
		z[i] = x[i];
	for (; i + 16 <= n; i += 16)
		for (int v = 0; v < 16; v += 4)
			_mm_stream_ps(z + i + v, _mm_loadu_ps(x + i + v));
	_mm_sfence();
#endif
	memcpy(z + i, x + i, (n - i) * sizeof *z);
}

// Returns the address of number k of x.
static void *number_at(const void *x, enum weft_type type, int64_t k) {
	return (char *)x + k * (type == WEFT_BFLOAT16 ? sizeof(bfloat16) : sizeof(float));
}

static weft_function convert_kernel;

void weft_onednn_convert_by(weft_function kernel) { convert_kernel = kernel; }

static void convert(void *z, enum weft_type z_type, const void *x, enum weft_type x_type, int64_t n) {
	convert_kernel(&(weft_convert_args){z, x, z_type, x_type}, 0, n);
}

// Buffers for x and z of one block, for operands whose types are not the product's, and for a z that is
// written past the caches. A buffer has the rows of one block, so that it stays in the second-level cache.
// Like oneDNN's scratch, buffers are not charged to a meter.
typedef struct {
	float *x, *z;
} tiles;

static dnnl_status_t run(const weft_onednn *p, const void *packed, const void *x, enum weft_type x_type,
                         void *z, enum weft_type z_type, int64_t calls, const tiles *t, execution *e) {
	const int64_t in = p->rows * p->in, out = p->rows * p->out;
	TRY(dnnl_stream_create(&e->stream, cpu, dnnl_stream_default_flags));
	TRY(argument(e, DNNL_ARG_SRC, &p->x, t->x ? t->x : x));
	TRY(argument(e, DNNL_ARG_DST, &p->z, t->z ? t->z : z));
	TRY(argument(e, DNNL_ARG_WEIGHTS, &p->packed, packed));
	TRY(argument(e, DNNL_ARG_SCRATCHPAD, &p->scratch, DNNL_MEMORY_ALLOCATE));
	for (int64_t k = 0; k < calls; k++) {
		void *from = number_at(x, x_type, k * in), *to = number_at(z, z_type, k * out);
		if (t->x)
			convert(t->x, WEFT_FLOAT32, from, x_type, in);
		else
			TRY(dnnl_memory_set_data_handle(e->args[0].memory, from));
		if (t->z && p->accumulate)
			convert(t->z, WEFT_FLOAT32, to, z_type, out);
		else if (!t->z)
			TRY(dnnl_memory_set_data_handle(e->args[1].memory, to));
		TRY(execute(e, p->multiply));
		if (t->z && z_type == WEFT_FLOAT32)
			copy_past_caches(to, t->z, out);
		else if (t->z)
			convert(to, z_type, t->z, WEFT_FLOAT32, out);
	}
	return dnnl_success;
}

// Multiplies `calls` blocks of p->rows rows each, which follow each other in x and z.
static int multiply(const weft_product_args *a, const void *x, enum weft_type x_type, void *z,
                    enum weft_type z_type, int64_t calls) {
	const weft_onednn *p = a->product;
	execution e = {0};
	tiles t = {0};
	int status = WEFT_ONEDNN_MEMORY;
	alone();
	if ((x_type == p->x_type || posix_memalign((void **)&t.x, 64, p->rows * p->in * sizeof *t.x) == 0) &&
	    ((z_type == p->z_type && !a->past) ||
	     posix_memalign((void **)&t.z, 64, p->rows * p->out * sizeof *t.z) == 0))
		status = end(&e, run(p, a->packed, x, x_type, z, z_type, calls, &t, &e));
	free(t.x);
	free(t.z);
	return status;
}

// The last block, which has fewer rows than the product: rows row … row+rows−1. It is copied to full_x and
// filled up with zeros.
static int multiply_rest(const weft_product_args *a, int64_t row, int64_t rows) {
	const weft_onednn *p = a->product;
	const void *x = number_at(a->x, a->x_type, row * p->in);
	void *z = number_at(a->z, a->z_type, row * p->out);
	char *zeros = number_at(a->full_x, p->x_type, rows * p->in);
	convert(a->full_x, p->x_type, x, a->x_type, rows * p->in);
	memset(zeros, 0, (char *)number_at(a->full_x, p->x_type, p->rows * p->in) - zeros);
	if (p->accumulate) {
		zeros = number_at(a->full_z, p->z_type, rows * p->out);
		convert(a->full_z, p->z_type, z, a->z_type, rows * p->out);
		memset(zeros, 0, (char *)number_at(a->full_z, p->z_type, p->rows * p->out) - zeros);
	}
	int status = multiply(a, a->full_x, p->x_type, a->full_z, p->z_type, 1);
	convert(z, a->z_type, a->full_z, p->z_type, rows * p->out);
	return status;
}

void weft_product_run(const void *args, int64_t lo, int64_t hi) {
	const weft_product_args *a = args;
	weft_onednn *p = a->product;
	const int64_t whole = a->rows / p->rows, end_of_whole = hi < whole ? hi : whole;
	if (lo < end_of_whole)
		tell(p, multiply(a, number_at(a->x, a->x_type, lo * p->rows * p->in), a->x_type,
		                 number_at(a->z, a->z_type, lo * p->rows * p->out), a->z_type, end_of_whole - lo));
	if (hi > whole)
		tell(p, multiply_rest(a, whole * p->rows, a->rows - whole * p->rows));
}
