// The interpreter of expressions. An expression is a small program over registers. A register holds one
// number for each element of a tile. A tile has whole rows if these are short, else a part of one row, so
// that its registers stay in the first-level caches. In the last vector of a register, the
// numbers behind the tile's have no meaning.

typedef struct {
	const float *in[WEFT_OPERANDS]; // the numbers of each input
	float *registers;
	int inputs;
} register_file;

static inline const float *read_register(const register_file *r, int k) {
	return k < r->inputs ? r->in[k] : r->registers + k * WEFT_REGISTER;
}

// Runs `count` instructions over n numbers of each register.
static void run_code(const weft_instruction *code, int count, const register_file *r, int64_t n) {
	for (const weft_instruction *q = code; q < code + count; q++) {
		const float *a = read_register(r, q->a), *b = read_register(r, q->b), *c = read_register(r, q->c);
		float *z = r->registers + q->z * WEFT_REGISTER;
		const float value = q->value;
		switch ((enum weft_operation)q->operation) {
#define VECTOR(name, f) \
	case weft_op_##name: \
		for (int64_t p = 0; p < n; p += VW) { \
			const vf x = load(a + p), y = load(b + p), w = load(c + p); \
			(void)x, (void)y, (void)w; \
			store(z + p, f); \
		} \
		break;
#define SINGLE(name, f) \
	case weft_op_##name: \
		for (int64_t p = 0; p < n; p++) { \
			const float x = a[p], y = b[p]; \
			(void)y; \
			z[p] = f; \
		} \
		break;
			WEFT_OPERATIONS(VECTOR, SINGLE)
#undef VECTOR
#undef SINGLE
		}
	}
}

// z = x for n numbers, each of either type.
INLINE void copy_numbers(void *z, int z_type, const void *x, int x_type, int64_t n) {
#define COPY(to, from) \
	for (int64_t p = 0; p < n; p += VW) { \
		const int left = lesser(n - p, VW); \
		put((to)z + p, part((from)x + p, left), left); \
	}
	if (x_type == WEFT_BFLOAT16) {
		COPY(float *, const bfloat16 *)
	} else if (z_type == WEFT_BFLOAT16) {
		COPY(bfloat16 *, const float *)
	} else {
		COPY(float *, const float *)
	}
#undef COPY
}

// z_p = x_{places_p} for n numbers.
static void pick_numbers(float *z, const void *x, int type, const int32_t *places, int64_t n) {
	if (type == WEFT_BFLOAT16)
		for (int64_t p = 0; p < n; p++)
			z[p] = number_bfloat16((const bfloat16 *)x + places[p]);
	else {
		int64_t p = 0;
#if defined(GATHER)
		for (; p + VW <= n; p += VW)
			store(z + p, GATHER((const float *)x, places + p));
#endif
		for (; p < n; p++)
			z[p] = ((const float *)x)[places[p]];
	}
}

// A tile: columns first … first+width−1 of rows row … row+rows−1.
typedef struct {
	int64_t row, rows, first, width;
} element_tile;

// Returns the numbers of an input for a tile. If whole vectors may be loaded from the input itself, it
// returns their address there. Else it copies them to `to`. An input with one row for all rows is copied
// once: for the first tile of short rows, which has the most rows.
static const float *read_input(const weft_pointwise_args *a, const weft_operand *o, float *to,
                               int32_t *places, element_tile t, int is_first) {
	const int whole = a->cols <= WEFT_REGISTER;
	const int64_t n = t.rows * t.width, size = o->type == WEFT_BFLOAT16 ? sizeof(bfloat16) : sizeof(float);
	if (!o->columns && (o->stride == a->cols || !whole)) {
		const int64_t at = t.row * o->stride + t.first, end = o->stride ? a->rows * a->cols : a->cols;
		const char *x = (const char *)o->x + at * size;
		if (o->type == WEFT_FLOAT32 && at + (n + VW - 1) / VW * VW <= end)
			return (const float *)x;
		copy_numbers(to, WEFT_FLOAT32, x, o->type, n);
		return to;
	}
	const char *x = (const char *)o->x + t.row * o->stride * size;
	if (!whole) {
		pick_numbers(to, x, o->type, o->columns + t.first, n);
		return to;
	}
	if (is_first)
		for (int64_t r = 0, p = 0; r < t.rows; r++)
			for (int64_t c = 0; c < a->cols; c++)
				places[p++] = r * o->stride + (o->columns ? o->columns[c] : c);
	if (is_first || o->stride)
		pick_numbers(to, x, o->type, places, n);
	return to;
}

// Evaluates the expression for rows lo … hi−1, tile by tile.
static void k_pointwise(const void *args, int64_t lo, int64_t hi) {
	const weft_pointwise_args *a = args;
	float *const registers = weft_take_workspace(&a->workspaces);
	int32_t *const places = (int32_t *)(registers + a->registers * WEFT_REGISTER);
	register_file r = {.registers = registers, .inputs = a->inputs};
	run_code(a->code, a->constants, &r, WEFT_REGISTER);
	element_tile t = {.row = lo};
	for (; t.row < hi; t.row += t.rows) {
		t.rows = lesser(hi - t.row, a->cols <= WEFT_REGISTER ? WEFT_REGISTER / (a->cols ? a->cols : 1) : 1);
		for (t.first = 0; t.first < a->cols; t.first += t.width) {
			t.width = lesser(a->cols - t.first, WEFT_REGISTER);
			for (int k = 0; k < a->inputs; k++)
				if (a->x[k].x)
					r.in[k] = read_input(a, &a->x[k], registers + k * WEFT_REGISTER,
					                     places + k * WEFT_REGISTER, t, t.row == lo);
			run_code(a->code + a->constants, a->instructions - a->constants, &r, t.rows * t.width);
			// results that are inputs come first, as another result may be written over an input
			for (int j = 0; j < 2 * a->outputs; j++) {
				const int k = j % a->outputs;
				if ((a->results[k] < a->inputs) != (j < a->outputs))
					continue;
				const int64_t at = t.row * a->cols + t.first,
				              size = a->z_types[k] == WEFT_BFLOAT16 ? sizeof(bfloat16) : sizeof(float);
				copy_numbers((char *)a->z[k] + at * size, a->z_types[k], read_register(&r, a->results[k]),
				             WEFT_FLOAT32, t.rows * t.width);
			}
		}
	}
	weft_leave_workspace(&a->workspaces, registers);
}

#if defined(GATHER)
// z_ic = weight_c · x_i,column_c for floats, a vector at a time.
static void select_columns(const weft_map_columns_args *a, int64_t lo, int64_t hi) {
	for (int64_t i = lo; i < hi; i++) {
		float *z = (float *)a->z + i * a->z_cols;
		const float *x = (const float *)a->x + i * a->x_cols;
		int64_t c = 0;
		for (; c + VW <= a->z_cols; c += VW)
			store(z + c, load(a->weights + c) * GATHER(x, a->columns + c));
		for (; c < a->z_cols; c++)
			z[c] = a->weights[c] * x[a->columns[c]];
	}
}
#endif

#define MAP_COLUMNS(to, from) \
	for (int64_t i = lo; i < hi; i++) { \
		to z = (to)a->z + i * a->z_cols; \
		from x = (from)a->x + i * a->x_cols; \
		for (int64_t c = 0; c < a->z_cols; c++) { \
			if (a->single) { \
				put(z + c, all(a->weights[c] * number(x + a->columns[c])), 1); \
				continue; \
			} \
			double sum = 0; \
			for (int32_t k = a->begin[c]; k < a->begin[c + 1]; k++) \
				sum += (double)a->weights[k] * number(x + a->columns[k]); \
			put(z + c, all(sum), 1); \
		} \
	}

// z_ic = Σ_k weight_k · x_i,column_k, summed in double precision.
static void k_map_columns(const void *args, int64_t lo, int64_t hi) {
	const weft_map_columns_args *a = args;
#if defined(GATHER)
	if (a->single && a->z_type == WEFT_FLOAT32 && a->x_type == WEFT_FLOAT32) {
		select_columns(a, lo, hi);
		return;
	}
#endif
	if (a->z_type == WEFT_BFLOAT16 && a->x_type == WEFT_BFLOAT16) {
		MAP_COLUMNS(bfloat16 *, const bfloat16 *)
	} else if (a->z_type == WEFT_BFLOAT16) {
		MAP_COLUMNS(bfloat16 *, const float *)
	} else if (a->x_type == WEFT_BFLOAT16) {
		MAP_COLUMNS(float *, const bfloat16 *)
	} else {
		MAP_COLUMNS(float *, const float *)
	}
}
#undef MAP_COLUMNS
