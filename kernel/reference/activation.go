package reference

import "math"

// Activation is a function of one number and its derivative at x.
type Activation struct {
	Value, Derivative func(x float64) float64
}

// The activations. At a kink they have PyTorch's derivative, that of the left side.
var (
	// Identity is x.
	Identity = Activation{
		Value:      func(x float64) float64 { return x },
		Derivative: func(float64) float64 { return 1 },
	}
	// ReLU is max(x, 0).
	ReLU = Activation{
		Value:      func(x float64) float64 { return LeakyReLU(x, 0) },
		Derivative: func(x float64) float64 { return LeakyReLUSlope(x, 0) },
	}
	// ELU is x above 0 and exp(x) − 1 elsewhere.
	ELU = Activation{
		Value: func(x float64) float64 {
			if x > 0 {
				return x
			}
			return math.Expm1(x)
		},
		Derivative: func(x float64) float64 {
			if x > 0 {
				return 1
			}
			return math.Exp(x)
		},
	}
	// GELU is x·Φ(x), where Φ is the distribution function of the normal distribution.
	GELU = Activation{
		Value: func(x float64) float64 { return x * math.Erfc(-x/math.Sqrt2) / 2 },
		Derivative: func(x float64) float64 {
			return math.Erfc(-x/math.Sqrt2)/2 + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
		},
	}
)

// LeakyReLU is x above 0 and λ·x elsewhere.
func LeakyReLU(x, lambda float64) float64 {
	if x > 0 {
		return x
	}
	return lambda * x
}

// LeakyReLUSlope returns the derivative of LeakyReLU: 1 above 0 and λ elsewhere.
func LeakyReLUSlope(x, lambda float64) float64 {
	if x > 0 {
		return 1
	}
	return lambda
}

// Activate returns y = f(x), entry by entry.
func Activate(f Activation, x *Matrix) *Matrix { return x.Map(f.Value) }

// ActivateBackward returns the gradient of Activate: dx = dy ⊙ f'(x).
func ActivateBackward(f Activation, x, dy *Matrix) (dx *Matrix) { return x.Map(f.Derivative).Times(dy) }

// Dropout returns y = x ⊙ mask, with mask entries 0 or 1/(1−p).
func Dropout(x, mask *Matrix) *Matrix { return x.Times(mask) }

// DropoutBackward returns the gradient of Dropout: dx = dy ⊙ mask.
func DropoutBackward(mask, dy *Matrix) (dx *Matrix) { return dy.Times(mask) }
