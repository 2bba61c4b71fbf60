// The operations of an expression, and the arguments of the kernels that compute message functions.
#ifndef WEFT_EXPRESSION_ARGS_H
#define WEFT_EXPRESSION_ARGS_H
#include "matrices.h"
#include "workspace.h"

// The operations of an expression, in the order of package kernel's constants: a name, and the equation of
// its value. The equation is a C expression of the registers x, y and w, of which an operation reads the
// first ones, and of the instruction's value. It calls the functions of functions.h. A VECTOR operation is
// computed for whole vectors. A SINGLE operation calls a function of the C library for each float.
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

// register_z = operation(register_a, register_b, register_c; value). An operation reads as many registers as
// it has operands.
typedef struct {
	int32_t operation, z, a, b, c;
	float value;
} weft_instruction;

enum { WEFT_OPERANDS = 32 }; // the most inputs, and the most results

// An input of an expression. It has as many rows as the results, or with stride 0 one row, which all rows of
// the results share.
typedef struct {
	const void *x;
	const int32_t *columns; // column c of the results reads column columns_c of x; may be NULL: column c
	int64_t stride;         // between x's rows
	int32_t type;
} weft_operand;

// z_k = register results_k, for k < outputs. Each z_k has rows × cols numbers, of type z_types_k. The first
// registers are the inputs. The first `constants` of the instructions set registers that no other instruction
// sets. A z may be the matrix of an input, if that has no columns listed, and the same shape and type.
typedef struct {
	void *z[WEFT_OPERANDS];
	weft_operand x[WEFT_OPERANDS];
	const weft_instruction *code;
	int32_t z_types[WEFT_OPERANDS], results[WEFT_OPERANDS];
	int64_t rows, cols;
	int32_t inputs, outputs, constants, instructions, registers;
	weft_workspaces workspaces; // of weft_pointwise_workspace bytes
} weft_pointwise_args;

// z_ic = Σ_k weight_k · x_i,column_k for the k from begin_c to begin_{c+1} − 1. z has z_cols columns, and x
// has x_cols.
typedef struct {
	void *z;       // of z_type
	const void *x; // of x_type
	const int32_t *begin, *columns;
	const float *weights;
	int64_t z_cols, x_cols;
	int32_t z_type, x_type;
	int32_t single; // each column of z is one column of x: entry k is that of column k
} weft_map_columns_args;

// A function of each group of `width` columns. Softmax and log-softmax give `width` numbers for each group.
// The others, maximum, minimum and log-sum-exp, give one number. If several columns are the maximum, MAX
// divides the gradient among them, and FIRST_MAX gives it to the first. MIN and FIRST_MIN do the same.
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

// dx = dLoss/dx from g = dLoss/dz, the input x and the output z. x and dx have groups × width columns. z and
// g have the columns of the function's result. dx may be g if they have as many columns.
typedef struct {
	elem *dx;
	const elem *g, *x, *z;
	int64_t groups, width;
	int32_t function;
} weft_groups_back_args;

// Products of small matrices. A row of x, y and z holds `groups` matrices, one behind the other: z = x·y for
// x of rows × inner, y of inner × cols and z of rows × cols numbers. x_transposed: x is stored as inner ×
// rows, and so on for y. At most one of the two is transposed.
typedef struct {
	elem *z;
	const elem *x, *y;
	int64_t groups, rows, inner, cols;
	int32_t x_transposed, y_transposed;
} weft_row_product_args;
#endif
