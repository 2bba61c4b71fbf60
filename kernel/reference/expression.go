package reference

import "math"

// Operations has the operations of expressions by name, as functions of an instruction's value and of
// operands.
var Operations = map[string]func(value float64, x ...float64) float64{
	"constant":   func(value float64, _ ...float64) float64 { return value },
	"neg":        func(_ float64, x ...float64) float64 { return -x[0] },
	"abs":        unary(math.Abs),
	"sign":       unary(func(x float64) float64 { return truth(x > 0) - truth(x < 0) }),
	"exp":        unary(math.Exp),
	"log":        unary(math.Log),
	"log1p":      unary(math.Log1p),
	"expm1":      unary(math.Expm1),
	"sqrt":       unary(math.Sqrt),
	"rsqrt":      unary(func(x float64) float64 { return 1 / math.Sqrt(x) }),
	"reciprocal": unary(func(x float64) float64 { return 1 / x }),
	"square":     unary(func(x float64) float64 { return x * x }),
	"sin":        unary(math.Sin),
	"cos":        unary(math.Cos),
	"atan":       unary(math.Atan),
	"tanh":       unary(math.Tanh),
	"sigmoid":    unary(Sigmoid),
	"relu":       func(_ float64, x ...float64) float64 { return unless(x[0] <= 0, x[0]) },
	"elu":        elu,
	"selu":       unary(func(x float64) float64 { return 1.0507009873554805 * elu(1.6732632423543772, x) }),
	"leaky_relu": func(slope float64, x ...float64) float64 { return LeakyReLU(x[0], slope) },
	"gelu":       unary(GELU.Value),
	"gelu_tanh":  unary(geluTanh),
	"silu":       unary(func(x float64) float64 { return x * Sigmoid(x) }),
	"softplus":   unary(softplus),
	"erf":        unary(math.Erf),
	"floor":      unary(math.Floor),
	"ceil":       unary(math.Ceil),
	"round":      unary(math.RoundToEven),
	"logsigmoid": unary(func(x float64) float64 { return math.Min(x, 0) - math.Log1p(math.Exp(-math.Abs(x))) }),
	"not":        unary(func(x float64) float64 { return truth(x == 0) }),
	"detach":     unary(func(x float64) float64 { return x }),
	"add":        ofTwo(func(x, y float64) float64 { return x + y }),
	"sub":        ofTwo(func(x, y float64) float64 { return x - y }),
	"mul":        ofTwo(func(x, y float64) float64 { return x * y }),
	"div":        ofTwo(func(x, y float64) float64 { return x / y }),
	"pow":        ofTwo(math.Pow),
	"fmod":       ofTwo(math.Mod),
	"atan2":      ofTwo(math.Atan2),
	"maximum":    ofTwo(func(x, y float64) float64 { return greatest(x, y) }),
	"minimum":    ofTwo(func(x, y float64) float64 { return -greatest(-x, -y) }),
	"gt":         ofTwo(func(x, y float64) float64 { return truth(x > y) }),
	"ge":         ofTwo(func(x, y float64) float64 { return truth(x >= y) }),
	"lt":         ofTwo(func(x, y float64) float64 { return truth(x < y) }),
	"le":         ofTwo(func(x, y float64) float64 { return truth(x <= y) }),
	"eq":         ofTwo(func(x, y float64) float64 { return truth(x == y) }),
	"ne":         ofTwo(func(x, y float64) float64 { return truth(x != y) }),
	"and":        ofTwo(func(x, y float64) float64 { return truth(x != 0 && y != 0) }),
	"or":         ofTwo(func(x, y float64) float64 { return truth(x != 0 || y != 0) }),
	"where": func(_ float64, x ...float64) float64 {
		if x[0] != 0 {
			return x[1]
		}
		return x[2]
	},
}

func unary(f func(x float64) float64) func(float64, ...float64) float64 {
	return func(_ float64, x ...float64) float64 { return f(x[0]) }
}

func ofTwo(f func(x, y float64) float64) func(float64, ...float64) float64 {
	return func(_ float64, x ...float64) float64 { return f(x[0], x[1]) }
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// unless returns 0 if a condition holds, else x.
func unless(condition bool, x float64) float64 {
	if condition {
		return 0
	}
	return x
}

// greatest returns the largest number, or NaN if one is NaN; math.Max(+∞, NaN) would be +∞.
func greatest(x ...float64) float64 {
	m := math.Inf(-1)
	for _, v := range x {
		if v > m || v != v {
			m = v
		}
	}
	return m
}

func elu(alpha float64, x ...float64) float64 {
	if x[0] > 0 {
		return x[0]
	}
	return alpha * math.Expm1(x[0])
}

func geluTanh(x float64) float64 { return x * Sigmoid(2*math.Sqrt(2/math.Pi)*(x+.044715*x*x*x)) }

func softplus(x float64) float64 {
	if x > 20 {
		return x
	}
	return math.Log1p(math.Exp(x))
}
