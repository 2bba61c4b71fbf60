package reference

import "math"

// AdamSettings are the settings of Adam and AdamW; PyTorch's defaults are rate .001, β .9 and .999, ε 1e-8.
type AdamSettings struct {
	Rate, Beta1, Beta2, Epsilon, WeightDecay float64
}

// Adam makes one step (Kingma and Ba, arXiv 1412.6980) as torch.optim.Adam does; step counts from 1, m and v
// start at zero:
//
//	g ← g + decay·p,  m ← β₁ m + (1−β₁) g,  v ← β₂ v + (1−β₂) g²
//	p ← p − rate · (m/(1−β₁^step)) / (√(v/(1−β₂^step)) + ε)
//
// It updates p, m and v; g stays.
func Adam(p, g, m, v []float64, step int, s AdamSettings) {
	for k := range p {
		grad := g[k] + s.WeightDecay*p[k]
		m[k] = s.Beta1*m[k] + (1-s.Beta1)*grad
		v[k] = s.Beta2*v[k] + (1-s.Beta2)*grad*grad
		mean := m[k] / (1 - math.Pow(s.Beta1, float64(step)))
		square := v[k] / (1 - math.Pow(s.Beta2, float64(step)))
		p[k] -= s.Rate * mean / (math.Sqrt(square) + s.Epsilon)
	}
}

// AdamW makes one step with decoupled decay (Loshchilov and Hutter, arXiv 1711.05101): p ← (1 −
// rate·decay)·p, and then the step of Adam without decay.
func AdamW(p, g, m, v []float64, step int, s AdamSettings) {
	for k := range p {
		p[k] *= 1 - s.Rate*s.WeightDecay
	}
	s.WeightDecay = 0
	Adam(p, g, m, v, step, s)
}

// SGD makes one step as torch.optim.SGD does, without dampening; the buffer starts at zero:
//
//	g ← g + decay·p,  buffer ← momentum·buffer + g,  p ← p − rate·buffer
//
// It updates p and buffer; g stays.
func SGD(p, g, buffer []float64, rate, momentum, decay float64) {
	for k := range p {
		buffer[k] = momentum*buffer[k] + g[k] + decay*p[k]
		p[k] -= rate * buffer[k]
	}
}
