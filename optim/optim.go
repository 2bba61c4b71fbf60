// Package optim has the optimizers Adam, AdamW and SGD, and learning-rate schedules, as PyTorch defines them.
// A worker (package worker) makes a step at the end of each epoch, over the parameters of package nn.
package optim

import (
	"cmp"
	"fmt"
	"math"

	"weft/checkpoint"
	"weft/kernel"
	"weft/nn"
	"weft/tensor"
)

// Settings choose an optimizer.
type Settings struct {
	Optimizer           string  `yaml:"optimizer"`         // one of Names
	LR                  float64 `yaml:"lr"`                // learning rate
	WeightDecay         float64 `yaml:"weight-decay"`      // of parameters with nn.WeightDecay
	ConvWeightDecay     float64 `yaml:"conv-weight-decay"` // of parameters with nn.ConvDecay
	DecayFirstLayerOnly bool    `yaml:"decay-first-layer-only"`
	Momentum            float64 `yaml:"momentum"` // of SGD, in [0, 1)
	// AdamBeta2 is β₂ of Adam and AdamW, in (0, 1): the share of the mean of squared gradients that each step
	// keeps.
	AdamBeta2 float64 `yaml:"adam-beta2"`
	Clip      float64 `yaml:"clip"` // limit of the 2-norm of all gradients; 0: no limit
}

// Names are the optimizers: Adam (Kingma & Ba 2015), AdamW (Loshchilov & Hutter 2019), and stochastic
// gradient descent.
var Names = []string{Adam, AdamW, SGD}

// The names of the optimizers.
const (
	Adam  = "adam"
	AdamW = "adamw"
	SGD   = "sgd"
)

// Optimizer holds the state of one run.
type Optimizer struct {
	// Squares is given the squared 2-norms of the gradients of this worker's parameters. It returns those of
	// all parameters of the model, in the model's order, for Clip. nil: this worker has all parameters.
	Squares func(own []float64) []float64

	s      Settings
	team   *kernel.Team
	params []*nn.Param
	state  [][2]*tensor.Matrix // adam: m and v; sgd: momentum
	step   int64
}

// New returns an optimizer for the parameters. It is an error if a setting is out of its range.
func New(s Settings, team *kernel.Team, params []*nn.Param) (*Optimizer, error) {
	buffers := 2
	switch s.Optimizer {
	case Adam, AdamW:
		if !(s.AdamBeta2 > 0 && s.AdamBeta2 < 1) {
			return nil, fmt.Errorf("adam-beta2 %v: must be above 0 and below 1", s.AdamBeta2)
		}
	case SGD:
		buffers = 0
		if s.Momentum != 0 {
			buffers = 1
		}
	default:
		return nil, fmt.Errorf("unknown optimizer %q", s.Optimizer)
	}
	o := &Optimizer{s: s, team: team, params: params, state: make([][2]*tensor.Matrix, len(params))}
	for i, p := range params {
		if p.Fixed {
			continue
		}
		for b := range buffers {
			o.state[i][b] = team.Zeros(tensor.Optimizer, p.Value.Rows, p.Value.Cols)
		}
	}
	return o, nil
}

// Step updates the parameters from their gradients. The learning rate is multiplied by factor (a Schedule's).
func (o *Optimizer) Step(factor float64) {
	o.step++
	rate, clip := o.s.LR*factor, 1.0
	if o.s.Clip > 0 {
		clip = math.Min(1, o.s.Clip/(o.norm()+1e-6))
	}
	for i, p := range o.params {
		if p.Fixed {
			continue
		}
		o.update(p, o.state[i], rate*cmp.Or(p.Rate, 1), clip)
		for _, m := range o.state[i] {
			if m != nil {
				m.DontNeed()
			}
		}
	}
}

// update updates a parameter. Its state may rest on disk between steps.
func (o *Optimizer) update(p *nn.Param, state [2]*tensor.Matrix, rate, clip float64) {
	p.Value.SetWritable() // the training pass has made it read-only
	decay := o.s.decay(p)
	if o.s.Optimizer == SGD {
		o.team.SGD(p.Value, p.Grad, state[0], kernel.SGDStep{
			Rate: rate, Momentum: o.s.Momentum, Decay: decay, Clip: clip, First: o.step == 1,
		})
		return
	}
	o.team.Adam(p.Value, p.Grad, state[0], state[1], kernel.AdamStep{
		Rate: rate, Beta1: 0.9, Beta2: o.s.AdamBeta2, Epsilon: 1e-8,
		Decay: decay, Clip: clip, Step: int(o.step), Decoupled: o.s.Optimizer == AdamW,
	})
}

// decay returns a parameter's weight decay.
func (s *Settings) decay(p *nn.Param) float64 {
	switch {
	case p.OwnDecay != nil:
		return *p.OwnDecay
	case s.DecayFirstLayerOnly && p.Layer > 0:
		return 0
	case p.Decay == nn.WeightDecay:
		return s.WeightDecay
	case p.Decay == nn.ConvDecay:
		return s.ConvWeightDecay
	}
	return 0
}

// norm returns the 2-norm of all gradients, as of one vector.
func (o *Optimizer) norm() float64 {
	squares := make([]float64, len(o.params))
	for i, p := range o.params {
		if !p.Fixed {
			squares[i] = o.team.SumSquares(p.Grad)
		}
	}
	if o.Squares != nil {
		squares = o.Squares(squares)
	}
	sum := 0.0
	for _, x := range squares {
		sum += x
	}
	return math.Sqrt(sum)
}

// Arrays lists the state, under PyTorch's names.
func (o *Optimizer) Arrays() []checkpoint.Array {
	names := [2]string{"exp_avg", "exp_avg_sq"}
	if o.s.Optimizer == SGD {
		names[0] = "momentum_buffer"
	}
	all := []checkpoint.Array{{Name: "optimizer/step", Count: &o.step}}
	for i, p := range o.params {
		for b, m := range o.state[i] {
			if m != nil {
				all = append(all, p.Array(fmt.Sprintf("optimizer/%s/%s", names[b], p.Name), m))
			}
		}
	}
	return all
}

// Release releases the memory of the state.
func (o *Optimizer) Release() {
	for _, s := range o.state {
		s[0].Release()
		s[1].Release()
	}
}
