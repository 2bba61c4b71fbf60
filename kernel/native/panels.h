// The parts that both ways to compute the gradient of a weight share, by vectors (weight.h) and by tiles
// (tiles.h): the factors, the cache lines that are prefetched, and the block of results.

enum { DEPTH = WEFT_WEIGHT_DEPTH }; // rows of a panel

// A factor, from some number on. It is of floats or of bfloat16s.
typedef struct {
	const char *at;
	int64_t stride, size; // numbers between two rows, bytes of a number
} operand;

// The factor x from (row, column) on. Its rows are `stride` numbers apart.
static inline operand operand_at(const void *x, int type, int64_t stride, int64_t row, int64_t column) {
	const int64_t size = type == WEFT_BFLOAT16 ? sizeof(bfloat16) : sizeof(float);
	return (operand){(const char *)x + (row * stride + column) * size, stride, size};
}

static inline operand later(operand x, int64_t rows) {
	x.at += rows * x.stride * x.size;
	return x;
}

// The cache lines of the rows that are packed next, in the order of memory.
typedef struct {
	const char *line;
	int64_t left, lines, skip; // lines left in the row, lines of a row, bytes between two rows
	// a power of two: one line is prefetched in this many rows of the current block
	int64_t every;
	int64_t at_once;           // for tiles, which have many rows each: how many lines are prefetched in each
} upcoming;

// The lines of `rows` rows from x on. They are prefetched while `work` rows of panels of the current block
// are multiplied.
static inline upcoming rows_from(operand x, int64_t columns, int64_t rows, int64_t work) {
	const int64_t lines = (columns * x.size + 63) / 64;
	upcoming u = {x.at, lines, lines, x.stride * x.size - lines * 64, 1, (lines * rows + work - 1) / work};
	while (work >= 2 * u.every * lines * rows)
		u.every *= 2;
	return u;
}

// Prefetches the next line to the second-level cache.
INLINE void ask_for_next(upcoming *u) {
	__builtin_prefetch(u->line, 0, SECOND_CACHE);
	u->line += 64;
	if (--u->left == 0) {
		u->line += u->skip;
		u->left = u->lines;
	}
}

// The block of z that belongs to some columns of x and some columns of g.
typedef struct {
	const float *x;        // panels, or tiles
	float *g;              // the panel that is multiplied by them, or tiles
	float *tile;           // the sum over earlier rows of the tile
	double *sum;           // the sum over earlier tiles
	int64_t depth, stride; // rows of panels; numbers between two rows of tile, and of sum
	int first, last;       // whether these rows are the first, and the last, of the tile
	int first_tile;        // sum holds nothing yet
	upcoming next_x, next_g;
} weight_block;

// sum = v, or with `add` sum += v, lane by lane, in double precision.
INLINE void add_wide(double *sum, vf v, int add) {
	float lanes[VW];
	store(lanes, v);
	for (int half = 0; half < VW; half += VW / 2) {
		vd term = wide(lanes + half), before;
		if (add) {
			__builtin_memcpy(&before, sum + half, sizeof before);
			term += before;
		}
		__builtin_memcpy(sum + half, &term, sizeof term);
	}
}
