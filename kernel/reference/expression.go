package reference

import "math"

// Operations has the operations of expressions by name, as functions of an instruction's value and of
// operands.
var Operations = map[string]func(value float64, x ...float64) float64{
	"constant":   func(value float64, _ ...float64) float64 { return value },
	"neg":        func(_ float64, x ...float64) float64 { return -x[0] },
	"abs":        of(math.Abs),
	"sign":       of(func(x float64) float64 { return truth(x > 0) - truth(x < 0) }),
	"exp":        of(math.Exp),
	"log":        of(math.Log),
	"log1p":      of(math.Log1p),
	"expm1":      of(math.Expm1),
	"sqrt":       of(math.Sqrt),
	"rsqrt":      of(func(x float64) float64 { return 1 / math.Sqrt(x) }),
	"reciprocal": of(func(x float64) float64 { return 1 / x }),
	"square":     of(func(x float64) float64 { return x * x }),
	"sin":        of(math.Sin),
	"cos":        of(math.Cos),
	"atan":       of(math.Atan),
	"tanh":       of(math.Tanh),
	"sigmoid":    of(Sigmoid),
	"relu":       func(_ float64, x ...float64) float64 { return unless(x[0] <= 0, x[0]) },
	"elu":        elu,
	"selu":       of(func(x float64) float64 { return 1.0507009873554805 * elu(1.6732632423543772, x) }),
	"leaky_relu": func(slope float64, x ...float64) float64 { return LeakyReLU(x[0], slope) },
	"gelu":       of(GELU.Value),
	"gelu_tanh":  of(geluTanh),
	"silu":       of(func(x float64) float64 { return x * Sigmoid(x) }),
	"softplus":   of(softplus),
	"erf":        of(math.Erf),
	"floor":      of(math.Floor),
	"ceil":       of(math.Ceil),
	"round":      of(math.RoundToEven),
	"logsigmoid": of(func(x float64) float64 { return math.Min(x, 0) - math.Log1p(math.Exp(-math.Abs(x))) }),
	"not":        of(func(x float64) float64 { return truth(x == 0) }),
	"detach":     of(func(x float64) float64 { return x }),
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

func of(f func(x float64) float64) func(float64, ...float64) float64 {
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
