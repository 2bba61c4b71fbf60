// The operations of an expression, and the arguments of kernels that message functions are made of.
#ifndef WEFT_EXPRESSION_ARGS_H
#define WEFT_EXPRESSION_ARGS_H
#include "matrices.h"
#include "workspace.h"

// The operations of an expression, in the order of package kernel's: the name, and the value. It is made of
// functions.h's functions of the registers x, y and w, as many as an operation has, and of the instruction's
// value. SINGLE operations are functions of floats, also where the others are of vectors.
#define WEFT_OPERATIONS(VECTOR, SINGLE) \
	VECTOR(constant, all(value)) \
	VECTOR(neg, -x) \
	VECTOR(abs, magnitude(x)) \
	VECTOR(sign, truth(x > 0) - truth(x < 0)) \
	VECTOR(exp, full_exp(x)) \
	VECTOR(log, full_log(x)) \
	VECTOR(log1p, vlog1p(x)) \
	VECTOR(expm1, full_expm1(x)) \
	VECTOR(sqrt, vsqrt(x)) \
	VECTOR(rsqrt, 1.0f / vsqrt(x)) \
	VECTOR(reciprocal, 1.0f / x) \
	VECTOR(square, x * x) \
	SINGLE(sin, sine(x)) \
	SINGLE(cos, cosine(x)) \
	SINGLE(atan, atanf(x)) \
	VECTOR(tanh, vtanh(x)) \
	VECTOR(sigmoid, full_sigmoid(x)) \
	VECTOR(relu, choose(x <= 0, all(0), x)) \
	VECTOR(elu, choose(x > 0, x, value * full_expm1(x))) \
	VECTOR(selu, vselu(x)) \
	VECTOR(leaky_relu, choose(x > 0, x, value * x)) \
	VECTOR(gelu, vgelu(x)) \
	VECTOR(gelu_tanh, vgelu_tanh(x)) \
	VECTOR(silu, x / (1.0f + full_exp(-x))) \
	VECTOR(softplus, vsoftplus(x)) \
	VECTOR(erf, verf(x)) \
	VECTOR(floor, vfloor(x)) \
	VECTOR(ceil, vceil(x)) \
	VECTOR(round, vround(x)) \
	VECTOR(logsigmoid, vlogsigmoid(x)) \
	VECTOR(logical_not, truth(x == 0)) \
	VECTOR(detach, x) \
	VECTOR(add, x + y) \
	VECTOR(sub, x - y) \
	VECTOR(mul, x * y) \
	VECTOR(div, x / y) \
	SINGLE(pow, powf(x, y)) \
	SINGLE(fmod, fmodf(x, y)) \
	SINGLE(atan2, atan2f(x, y)) \
	VECTOR(maximum, choose((x > y) | (x != x), x, y)) \
	VECTOR(minimum, choose((x < y) | (x != x), x, y)) \
	VECTOR(gt, truth(x > y)) \
	VECTOR(ge, truth(x >= y)) \
	VECTOR(lt, truth(x < y)) \
	VECTOR(le, truth(x <= y)) \
	VECTOR(eq, truth(x == y)) \
	VECTOR(ne, truth(x != y)) \
	VECTOR(logical_and, truth((x != 0) & (y != 0))) \
	VECTOR(logical_or, truth((x != 0) | (y != 0))) \
	VECTOR(where, choose(x != 0, y, w))

enum weft_operation {
#define X(name, value) weft_op_##name,
	WEFT_OPERATIONS(X, X)
#undef X
};

// Register z becomes the operation's result of registers a, b and c, as many as it has, and of value.
typedef struct {
	int32_t operation, z, a, b, c;
	float value;
} weft_instruction;

enum { WEFT_OPERANDS = 32 }; // at most so many inputs, and results

// An input of an expression, of a type: it has as many rows as the results, or with stride 0 one row for all.
typedef struct {
	const void *x;
	const int32_t *columns; // which column of x is the results' column c; may be NULL: column c
	int64_t stride;         // between x's rows
	int32_t type;
} weft_operand;

// z_k = register results_k, of z_types_k, for rows × cols numbers. The inputs are the first registers; the
// first `constants` of the instructions set registers that no other one does. A z may be an input without
// columns that has its shape and type.
typedef struct {
	void *z[WEFT_OPERANDS];
	weft_operand x[WEFT_OPERANDS];
	const weft_instruction *code;
	int32_t z_types[WEFT_OPERANDS], results[WEFT_OPERANDS];
	int64_t rows, cols;
	int32_t inputs, outputs, constants, instructions, registers;
	weft_workspaces workspaces; // of weft_pointwise_workspace bytes
} weft_pointwise_args;

// z_ic = Σ over k of column c of weight_k · x_i,column_k, for the k from begin_c to begin_c+1.
typedef struct {
	void *z;       // of z_type
	const void *x; // of x_type
	const int32_t *begin, *columns;
	const float *weights;
	int64_t z_cols, x_cols;
	int32_t z_type, x_type;
	int32_t single; // each column is one of x's
} weft_map_columns_args;

// A function of each group of `width` columns. A maximum, a minimum and the logarithm of a sum of
// exponentials are one number for each group. The first ones give their gradient to one number.
enum weft_group_function {
	WEFT_GROUP_MAX, WEFT_GROUP_MIN, WEFT_GROUP_FIRST_MAX, WEFT_GROUP_FIRST_MIN,
	WEFT_GROUP_SOFTMAX, WEFT_GROUP_LOG_SOFTMAX, WEFT_GROUP_LOG_SUM_EXP
};

typedef struct {
	elem *z;
	const elem *x;
	int64_t groups, width;
	int32_t function;
} weft_groups_args;

// dx from dLoss/dz and the output z; dx may be g, where that has as many columns. Those of equal largest, or
// smallest, numbers have equal parts of g, or the first one has it.
typedef struct {
	elem *dx;
	const elem *g, *x, *z;
	int64_t groups, width;
	int32_t function;
} weft_groups_back_args;

// Products of the matrices that each row has, group after group: z = x·y, rows × inner times inner × cols. A
// factor that is transposed has its columns as rows; one of them at most is.
typedef struct {
	elem *z;
	const elem *x, *y;
	int64_t groups, rows, inner, cols;
	int32_t x_transposed, y_transposed;
} weft_row_product_args;
#endif
