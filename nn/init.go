package nn

import (
	"math"
	"math/rand/v2"
)

// The distributions of the initial values of parameters.

// Init fills a parameter's initial values.
type Init func(values []float32, r *rand.Rand)

// Uniform draws from ±bound.
func Uniform(bound float64) Init {
	return func(values []float32, r *rand.Rand) {
		for i := range values {
			values[i] = float32((2*r.Float64() - 1) * bound)
		}
	}
}

// Normal draws from the standard normal distribution, PyTorch's default for an embedding.
func Normal() Init {
	return func(values []float32, r *rand.Rand) {
		for i := range values {
			values[i] = float32(r.NormFloat64())
		}
	}
}

// Constant sets every value.
func Constant(x float32) Init {
	return func(values []float32, _ *rand.Rand) {
		for i := range values {
			values[i] = x
		}
	}
}

// Glorot is uniform in ±√(6/(in+out)) (Glorot & Bengio 2010).
func Glorot(in, out int) Init { return Uniform(math.Sqrt(6 / float64(in+out))) }

// FanIn is uniform in ±1/√in, PyTorch's default for a linear layer's weight and bias.
func FanIn(in int) Init { return Uniform(1 / math.Sqrt(float64(max(1, in)))) }

// InitSchemes name the distribution of the initial weights of linear layers: auto is the model's own, glorot
// is Glorot, and torch is FanIn.
var InitSchemes = []string{"auto", "glorot", "torch"}
