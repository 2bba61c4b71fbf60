package reference

// GroupFunctions are functions of a group of columns: a number, or one for each column.
var GroupFunctions = map[string]func(x []float64) []float64{
	"max":       func(x []float64) []float64 { return []float64{greatest(x...)} },
	"min":       func(x []float64) []float64 { return []float64{-greatest(negated(x)...)} },
	"first_max": func(x []float64) []float64 { return []float64{greatest(x...)} },
	"first_min": func(x []float64) []float64 { return []float64{-greatest(negated(x)...)} },
	"softmax":   func(x []float64) []float64 { alpha, _ := softmax(x); return alpha },
	"log_softmax": func(x []float64) []float64 {
		_, lse := softmax(x)
		y := make([]float64, len(x))
		for k, v := range x {
			y[k] = v - lse
		}
		return y
	},
	"log_sum_exp": func(x []float64) []float64 { _, lse := softmax(x); return []float64{lse} },
}

// GroupFunctionsBackward are the gradients of a group's columns, from the gradient of the function.
var GroupFunctionsBackward = map[string]func(x, g []float64) []float64{
	"max":       func(x, g []float64) []float64 { return tied(x, greatest(x...), g[0]) },
	"min":       func(x, g []float64) []float64 { return tied(x, -greatest(negated(x)...), g[0]) },
	"first_max": func(x, g []float64) []float64 { return first(x, greatest(x...), g[0]) },
	"first_min": func(x, g []float64) []float64 { return first(x, -greatest(negated(x)...), g[0]) },
	"softmax": func(x, g []float64) []float64 {
		dx, mean := make([]float64, len(x)), 0.0
		alpha, _ := softmax(x)
		for k := range x {
			mean += alpha[k] * g[k]
		}
		for k := range x {
			dx[k] = alpha[k] * (g[k] - mean)
		}
		return dx
	},
	"log_softmax": func(x, g []float64) []float64 {
		dx, sum := make([]float64, len(x)), 0.0
		alpha, _ := softmax(x)
		for _, v := range g {
			sum += v
		}
		for k := range x {
			dx[k] = g[k] - alpha[k]*sum
		}
		return dx
	},
	"log_sum_exp": func(x, g []float64) []float64 {
		alpha, _ := softmax(x)
		for k := range alpha {
			alpha[k] *= g[0]
		}
		return alpha
	},
}

// first returns g for the first number that equals y, or is NaN like y, and 0 for the others.
func first(x []float64, y, g float64) []float64 {
	dx := make([]float64, len(x))
	for k, v := range x {
		if v == y || v != v && y != y {
			dx[k] = g
			break
		}
	}
	return dx
}

func negated(x []float64) []float64 {
	y := make([]float64, len(x))
	for k, v := range x {
		y[k] = -v
	}
	return y
}

// tied divides a gradient among the numbers that are the extreme.
func tied(x []float64, extreme, g float64) []float64 {
	dx, n := make([]float64, len(x)), 0.0
	for _, v := range x {
		n += truth(v == extreme)
	}
	for k, v := range x {
		dx[k] = truth(v == extreme) * g / n
	}
	return dx
}
