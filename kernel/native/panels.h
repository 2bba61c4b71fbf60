// What the two ways to multiply for the gradient of a weight share, by vectors (weight.h) and by tiles
// (tiles.h): factors, the lines that are asked for ahead, and the block of results at work.

enum { DEPTH = WEFT_WEIGHT_DEPTH }; // rows of a panel

// A factor from some number on, of floats or of bfloat16s.
typedef struct {
	const char *at;
	int64_t stride, size; // numbers between two rows, bytes of a number
} operand;

static inline operand operand_at(const void *x, int type, int64_t stride, int64_t row, int64_t column) {
	const int64_t size = type == WEFT_BFLOAT16 ? sizeof(bfloat16) : sizeof(float);
	return (operand){(const char *)x + (row * stride + column) * size, stride, size};
}

static inline operand later(operand x, int64_t rows) {
	x.at += rows * x.stride * x.size;
	return x;
}

// Lines of the rows that are packed next, in the order of memory.
typedef struct {
	const char *line;
	int64_t left, lines, skip; // lines that are left in the row, lines of a row, bytes between two rows
	int64_t every;             // a power of two: in how many rows of the block at work one is asked for
	int64_t at_once;           // of tiles, of many rows each: how many are asked for in each
} upcoming;

// So many rows from x on, in the time in which `work` rows of the block at work are multiplied by panels.
static inline upcoming rows_from(operand x, int64_t columns, int64_t rows, int64_t work) {
	const int64_t lines = (columns * x.size + 63) / 64;
	upcoming u = {x.at, lines, lines, x.stride * x.size - lines * 64, 1, (lines * rows + work - 1) / work};
	while (work >= 2 * u.every * lines * rows)
		u.every *= 2;
	return u;
}

INLINE void ask_for_next(upcoming *u) {
	__builtin_prefetch(u->line, 0, SECOND_CACHE);
	u->line += 64;
	if (--u->left == 0) {
		u->line += u->skip;
		u->left = u->lines;
	}
}

// The block of z that is made of some columns of x and some of g.
typedef struct {
	const float *x;        // panels, or tiles
	float *g;              // the panel that is multiplied with them, or tiles
	float *tile;           // the sum over the tile's rows before
	double *sum;           // the sum over the tiles before
	int64_t depth, stride; // rows of panels; between rows of tile, and of sum
	int first, last;       // whether the rows are the tile's first ones, and its last ones
	int first_tile;        // whether sum holds nothing yet
	upcoming next_x, next_g;
} weight_block;

// sum [+]= v, lane by lane.
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
