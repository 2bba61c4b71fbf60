package optim_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/internal/safetensors"
	"weft/kernel"
	"weft/kernel/kerneltest"
	"weft/nn"
	"weft/optim"
	"weft/tensor"
)

func newParams(t *testing.T) (*kernel.Team, *nn.Params) {
	team := kerneltest.Team(t, 2, tensor.NewMeter())
	t.Cleanup(team.Memory.Close)
	return team, nn.NewParams(team, 1)
}

func newOptimizer(t *testing.T, s optim.Settings, team *kernel.Team, ps *nn.Params) *optim.Optimizer {
	t.Helper()
	o, err := optim.New(s, team, ps.List)
	require.NoError(t, err)
	return o
}

// near fails unless float32 values of about 1 agree within five roundings for each of five steps.
func near(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i, w := range want {
		if d := math.Abs(float64(got[i]) - float64(w)); !(d <= 25*6e-8*math.Max(1, math.Abs(float64(w)))) {
			t.Fatalf("%s: number %d is %v, want %v", what, i, got[i], w)
		}
	}
}

// TestGolden follows PyTorch's optimizers for five steps, with the same gradients. Only the weight has weight
// decay.
func TestGolden(t *testing.T) {
	golden, meta, err := safetensors.ReadFile("testdata/golden.safetensors")
	require.NoError(t, err)
	tested := 0
	for name, text := range meta {
		if !strings.HasPrefix(text, "{") {
			continue
		}
		tested++
		t.Run(name, func(t *testing.T) {
			torch := struct {
				LR          float64    `json:"lr"`
				Momentum    float64    `json:"momentum"`
				Betas       [2]float64 `json:"betas"`
				WeightDecay float64    `json:"weight_decay"`
				Clip        *float64   `json:"clip"`
			}{Betas: [2]float64{.9, .999}} // torch.optim.Adam's defaults
			require.NoError(t, json.Unmarshal([]byte(text), &torch))
			s := optim.Settings{
				LR: torch.LR, Momentum: torch.Momentum, AdamBeta2: torch.Betas[1],
				WeightDecay: torch.WeightDecay,
			}
			s.Optimizer, _, _ = strings.Cut(name, "-")
			if torch.Clip != nil {
				s.Clip = *torch.Clip
			}
			team, ps := newParams(t)
			weight, bias := ps.Weight("weight", 3, 4, nn.Constant(0)), ps.Bias("bias", 4, nn.Constant(0))
			load := func(prefix string) {
				require.NoError(t,
					ps.Load(nn.State{"weight": golden[prefix+"weight"], "bias": golden[prefix+"bias"]}))
			}
			o := newOptimizer(t, s, team, ps)
			start := map[*nn.Param][]float32{}
			load("start.")
			for _, p := range ps.List {
				start[p] = append([]float32(nil), p.Value.Floats()...)
			}
			for step := 1; step <= 5; step++ {
				load(fmt.Sprintf("grad.%d.", step)) // in the files' layout, as the parameters are
				for _, p := range ps.List {
					copy(p.Grad.Floats(), p.Value.Floats())
					copy(p.Value.Floats(), start[p])
				}
				o.Step(1)
				state := ps.State()
				for _, p := range []*nn.Param{weight, bias} {
					near(t, fmt.Sprintf("step %d, %s", step, p.Name), state[p.Name].Float32,
						golden[fmt.Sprintf("%s.%d.%s", name, step, p.Name)].Float32)
					start[p] = append(start[p][:0], p.Value.Floats()...)
				}
			}
		})
	}
	if tested != 9 {
		t.Errorf("%d configurations, want 9", tested)
	}
}

// TestDecayOfTheFirstLayer decays the weights of layer 0, as GCN's authors did, and never biases.
func TestDecayOfTheFirstLayer(t *testing.T) {
	for _, firstOnly := range []bool{false, true} {
		for _, name := range optim.Names {
			team, ps := newParams(t)
			ps.Weight("0.weight", 2, 2, nn.Constant(1))
			ps.Bias("0.bias", 2, nn.Constant(1))
			ps.BeginLayer(1)
			ps.Weight("1.weight", 2, 2, nn.Constant(1))
			ps.Attention("1.att", 1, 2)
			team.Fill(ps.List[3].Value, 1)
			newOptimizer(t, optim.Settings{
				Optimizer: name, LR: .1, AdamBeta2: .999, WeightDecay: .5,
				DecayFirstLayerOnly: firstOnly,
			}, team, ps).Step(1)
			for i, want := range []bool{true, false, !firstOnly, !firstOnly} {
				if decayed := ps.List[i].Value.Floats()[0] != 1; decayed != want {
					t.Errorf("%s, first layer only %v: %s decayed: %v, want %v", name, firstOnly,
						ps.List[i].Name, decayed, want)
				}
			}
		}
	}
}

// TestTwoDecays: convolutions with nn.ConvDecay have ConvWeightDecay, and other weights have WeightDecay.
func TestTwoDecays(t *testing.T) {
	team, ps := newParams(t)
	ps.Weight("linear", 1, 1, nn.Constant(1))
	ps.Matrix("conv", 1, 1, nn.Constant(1)).Decay = nn.ConvDecay
	ps.Bias("bias", 1, nn.Constant(1))
	newOptimizer(t, optim.Settings{Optimizer: "sgd", LR: 1, WeightDecay: .25, ConvWeightDecay: .5}, team,
		ps).Step(1)
	for i, want := range []float32{.75, .5, 1} {
		if got := ps.List[i].Value.Floats()[0]; got != want {
			t.Errorf("%s is %v, want %v", ps.List[i].Name, got, want)
		}
	}
}

// TestClip: the norm of all gradients is limited. All are scaled by the same factor, and none if the norm is
// below the limit. PyTorch's clip_grad_norm_ scales by max_norm/(norm + 1e-6), which matters for a norm as
// small as that.
func TestClip(t *testing.T) {
	for _, c := range []struct{ size, clip, scale float64 }{ // the gradients are 3 and 4 times the size
		{1, 0, 1},
		{1, 10, 1},
		{1, 1, 1. / 5},
		{1e-6, 1e-6, 1e-6 / (5e-6 + 1e-6)}, // PyTorch 1.13: 0.16666667
		{1e-6, 5e-6, 5e-6 / (5e-6 + 1e-6)}, // 0.8333333
		{1e-6, 7e-6, 1},
	} {
		team, ps := newParams(t)
		a, b := ps.Bias("a", 1, nn.Constant(0)), ps.Bias("b", 1, nn.Constant(0))
		a.Grad.Floats()[0], b.Grad.Floats()[0] = float32(3*c.size), float32(4*c.size)
		newOptimizer(t, optim.Settings{Optimizer: "sgd", LR: 1 / c.size, Clip: c.clip}, team, ps).Step(1)
		for p, want := range map[*nn.Param]float64{a: -3 * c.scale, b: -4 * c.scale} {
			if got := float64(p.Value.Floats()[0]); math.Abs(got-want) > 1e-6 {
				t.Errorf("%+v: %s moves to %v, want %v", c, p.Name, got, want)
			}
		}
		if a.Grad.Floats()[0] != float32(3*c.size) {
			t.Error("the gradient was changed")
		}
	}
}

// TestClipOfTheWholeModel: the norm is over all parameters of the model, although an optimizer may hold only
// a part.
func TestClipOfTheWholeModel(t *testing.T) {
	team, ps := newParams(t)
	a := ps.Bias("a", 1, nn.Constant(0))
	a.Grad.Floats()[0] = 3
	squares := func(own []float64) []float64 {
		if len(own) != 1 || own[0] != 9 {
			t.Errorf("own squares are %v, want 9", own)
		}
		return append([]float64{144, 16}, own...) // with 3 and 4, a norm of 13
	}
	o := newOptimizer(t, optim.Settings{Optimizer: "sgd", LR: 1, Clip: 1}, team, ps)
	o.Squares = squares
	o.Step(1)
	near(t, "a", a.Value.Floats(), []float32{-3. / 13})
}

func TestRateFactor(t *testing.T) {
	for _, name := range optim.Names {
		team, ps := newParams(t)
		p := ps.Bias("p", 1, nn.Constant(0))
		p.Grad.Floats()[0] = 1
		o := newOptimizer(t, optim.Settings{Optimizer: name, LR: .5, AdamBeta2: .999}, team, ps)
		o.Step(0)
		if v := p.Value.Floats()[0]; v != 0 {
			t.Errorf("%s: a step with a factor of 0 ends at %v", name, v)
		}
		o.Step(.1)
		near(t, name, p.Value.Floats(), []float32{-.05})
	}
}

func TestRefused(t *testing.T) {
	team, ps := newParams(t)
	if _, err := optim.New(optim.Settings{Optimizer: "lion"}, team, ps.List); err == nil ||
		!strings.Contains(err.Error(), `"lion"`) {
		t.Errorf("%v", err)
	}
	for _, beta := range []float64{0, 1, math.NaN()} {
		_, err := optim.New(optim.Settings{Optimizer: optim.Adam, AdamBeta2: beta}, team, ps.List)
		if err == nil || err.Error() != fmt.Sprintf("adam-beta2 %v: must be above 0 and below 1", beta) {
			t.Errorf("beta2 %v: %v", beta, err)
		}
	}
}

// TestStateMemory: Adam keeps two numbers for each parameter, momentum one, and plain descent none. Release
// gives them back.
func TestStateMemory(t *testing.T) {
	for _, c := range []struct {
		s     optim.Settings
		pages int64
	}{
		{optim.Settings{Optimizer: "adam", AdamBeta2: .999}, 6},
		{optim.Settings{Optimizer: "adamw", AdamBeta2: .999}, 6},
		{optim.Settings{Optimizer: "sgd", Momentum: .9}, 3},
		{optim.Settings{Optimizer: "sgd"}, 0},
	} {
		team, ps := newParams(t)
		ps.Weight("w", 64, 32, nn.Constant(0)) // two pages
		ps.Bias("b", 5, nn.Constant(0))
		o := newOptimizer(t, c.s, team, ps)
		o.Step(1)
		if live := team.Memory.Live(tensor.Optimizer); live != c.pages*4096 {
			t.Errorf("%s holds %d bytes", c.s.Optimizer, live)
		}
		o.Release()
		if live := team.Memory.Live(tensor.Optimizer); live != 0 {
			t.Errorf("%s holds %d bytes after Release", c.s.Optimizer, live)
		}
	}
}

// rate returns the factor of a schedule without warm-up.
func rate(name string, epoch, epochs int) float64 {
	s := optim.Schedule{Name: name, Epochs: epochs}
	return s.Factor(epoch)
}

// TestSchedules compares with PyTorch's CosineAnnealingLR(T_max=10) and StepLR(step_size=4, gamma=0.5) from
// 0.1, and with the definitions for runs of any length.
func TestSchedules(t *testing.T) {
	golden, _, err := safetensors.ReadFile("testdata/golden.safetensors")
	require.NoError(t, err)
	for epoch := 1; epoch <= 12; epoch++ {
		check := func(name string, epochs int) {
			if got, want := .1*rate(name, epoch,
				epochs), float64(golden["schedule."+name].Float32[epoch-1]); math.Abs(got-want) > 1e-8 {
				t.Errorf("%s at epoch %d: %v, want %v", name, epoch, got, want)
			}
		}
		if epoch <= 11 {
			check("cosine", 10)
		}
		check("step", 40)
	}
	for epochs := 1; epochs <= 300; epochs++ {
		for epoch := 1; epoch <= epochs; epoch++ {
			if f := rate("constant", epoch, epochs); f != 1 {
				t.Fatalf("constant: %v", f)
			}
			if got, want := rate("step", epoch, epochs), math.Pow(.5,
				float64(10*(epoch-1)/epochs)); got != want {
				t.Fatalf("step at epoch %d of %d: %v, want %v", epoch, epochs, got, want)
			}
			f := rate("cosine", epoch, epochs)
			if before := rate("cosine", epoch-1, epochs); f <= 0 || f > 1 || epoch > 1 && f >= before {
				t.Fatalf("cosine at epoch %d of %d: %v after %v", epoch, epochs, f, before)
			}
		}
		if first := rate("cosine", 1, epochs); first != 1 {
			t.Fatalf("cosine begins at %v", first)
		}
	}
}

// TestWarmup compares with PyTorch's SequentialLR of LinearLR and CosineAnnealingLR: three epochs of warm-up,
// and nine of the schedule.
func TestWarmup(t *testing.T) {
	golden, _, err := safetensors.ReadFile("testdata/golden.safetensors")
	require.NoError(t, err)
	s := optim.Schedule{Name: "cosine", Epochs: 12, Warmup: 3}
	for i, want := range golden["schedule.warmup"].Float32 {
		if got := .1 * s.Factor(i+1); math.Abs(got-float64(want)) > 1e-8 {
			t.Errorf("epoch %d: %v, want %v", i+1, got, want)
		}
	}
	long := optim.Schedule{Name: "cosine", Epochs: 2, Warmup: 4}
	if got := long.Factor(2); got != .4 {
		t.Errorf("a warm-up longer than the run: %v", got)
	}
}

// TestPlateauAfterNaN: NaN is no progress, and a number after it is, as in PyTorch, where the best measure is
// infinite at first.
func TestPlateauAfterNaN(t *testing.T) {
	for _, highest := range []bool{false, true} {
		s := optim.Schedule{
			Name:    "plateau",
			Plateau: optim.Plateau{Factor: .5, Patience: 1, Highest: highest},
		}
		better := -1.
		if highest {
			better = 1
		}
		nan := math.NaN()
		for i, c := range []struct{ measure, want float64 }{
			{nan, 1},
			{nan, .5},
			{5, .5},
			{5 + better, .5},
			{5 + 2*better, .5},
			{5 + 2*better, .5},
			{5 + 2*better, .25},
			{nan, .25},
			{nan, .125},
		} {
			s.Observe(i+1, c.measure)
			if got := s.Factor(i + 2); got != c.want {
				t.Errorf("highest %v, after measure %d: factor %v, want %v", highest, i, got, c.want)
			}
		}
	}
}

// TestPlateau compares with PyTorch's ReduceLROnPlateau. Measures of the warm-up do not count.
func TestPlateau(t *testing.T) {
	golden, _, err := safetensors.ReadFile("testdata/golden.safetensors")
	require.NoError(t, err)
	for _, warmup := range []int{0, 2} {
		for mode, highest := range map[string]bool{"max": true, "min": false} {
			s := optim.Schedule{
				Name: "plateau", Warmup: warmup,
				Plateau: optim.Plateau{Factor: .5, Patience: 1, Highest: highest},
			}
			for epoch := 1; epoch <= warmup; epoch++ {
				s.Observe(epoch, 100-200*float64(epoch%2))
			}
			for i, want := range golden["schedule.plateau."+mode].Float32 {
				epoch := warmup + 1 + i
				if got := .1 * s.Factor(epoch); math.Abs(got-float64(want)) > 1e-8 {
					t.Errorf("%s after %d, epoch %d: %v, want %v", mode, warmup, epoch, got, want)
				}
				s.Observe(epoch, float64(golden["measures"].Float32[i]))
			}
		}
	}
}

// TestOwnRate: a parameter may have its own rate and decay.
func TestOwnRate(t *testing.T) {
	team, ps := newParams(t)
	decay := .25
	for _, name := range []string{"plain", "own"} {
		ps.Weight(name, 1, 1, nn.Constant(1))
	}
	ps.List[1].Rate, ps.List[1].OwnDecay = .5, &decay
	newOptimizer(t, optim.Settings{Optimizer: "sgd", LR: .5, WeightDecay: 1}, team, ps).Step(1)
	assert.Equal(t, float32(1-.5), ps.List[0].Value.Floats()[0])
	assert.Equal(t, float32(1-.25*.25), ps.List[1].Value.Floats()[0])
}

// TestFixed: a parameter that is not trained stays as it is, also with decay and momentum, and its gradient
// does not count in the norm.
func TestFixed(t *testing.T) {
	for _, name := range optim.Names {
		team, ps := newParams(t)
		ps.Weight("w", 1, 1, nn.Constant(1))
		ps.Weight("fixed", 1, 1, nn.Constant(1)).Fixed = true
		ps.List[0].Grad.Floats()[0], ps.List[1].Grad.Floats()[0] = .5, 7
		s := optim.Settings{Optimizer: name, LR: 1, AdamBeta2: .999, WeightDecay: .5, Clip: 1}
		if name == "sgd" {
			s.Momentum = .9
		}
		o := newOptimizer(t, s, team, ps)
		o.Step(1)
		assert.Equal(t, 1, ps.List[1].Value.Floats()[0], name)
		if name == "sgd" {
			near(t, "w", ps.List[0].Value.Floats(), []float32{1 - .5 - .5})
		}
		for _, a := range o.Arrays() {
			assert.Equal(t, false, strings.HasSuffix(a.Name, "/fixed"), a.Name)
		}
	}
}
