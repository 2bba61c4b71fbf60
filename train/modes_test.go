package train

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/internal/safetensors"
	"weft/parallel/axis"
)

// modeLayers are operations of a program on 13 features: in training and in evaluation it has branches of
// rows, of messages, and of what passes all layers. The branch that training does not take has infinite
// gradients.
func modeLayers(t *testing.T, training, evaluation bool) Options {
	t.Helper()
	var operations []string
	add := func(format string, args ...any) int {
		operations = append(operations, fmt.Sprintf(format, args...))
		return len(operations) - 1
	}
	choose := func(a, b func() int) int {
		switch {
		case !evaluation:
			return a()
		case !training:
			return b()
		}
		return add(`{"op":"where","in":[%d,%d,%d]}`, add(`{"op":"training"}`), a(), b())
	}
	zero := add(`{"op":"constant","values":[0]}`)
	linear := func(x int, w string) int {
		return add(`{"op":"linear","in":[%d,%d]}`, x, add(`{"op":"parameter","name":%q}`, w))
	}
	plus := func(x, y int) int { return add(`{"op":"add","in":[%d,%d]}`, x, y) }
	unary := func(op string, x int) int { return add(`{"op":%q,"in":[%d]}`, op, x) }
	times := func(x, y int) int { return add(`{"op":"mul","in":[%d,%d]}`, x, y) }
	infinite := func(x int) int { // 0, of which the gradient is not finite
		if x = times(zero, x); training {
			return unary("sqrt", x)
		}
		return x
	}
	gather := func(x int, end string) int { return add(`{"op":"gather","in":[%d],"end":%q}`, x, end) }
	mean := func(x int) int { return add(`{"op":"scatter","in":[%d],"reduce":"mean"}`, x) }
	dropped := func(x int, path string) int {
		return add(`{"op":"dropout","in":[%d],"p":0.5,"path":%q}`, x, path)
	}
	same := func(x int) func() int { return func() int { return x } }

	x := add(`{"op":"features","shape":[13]}`)
	first := linear(x, "v")
	skip := choose(same(first), func() int { // a layer of its own
		own := dropped(unary("relu", linear(first, "w0")), "own")
		return plus(infinite(mean(gather(own, "source"))), unary("tanh", first))
	})
	h := first
	for layer := range 3 {
		from, to := gather(h, "source"), gather(h, "target")
		z := unary("tanh", linear(add(`{"op":"sub","in":[%d,%d]}`, from, to), fmt.Sprintf("w%d", layer)))
		z = choose(same(z), func() int { return plus(times(z, unary("sigmoid", to)), infinite(from)) })
		h = unary("tanh", plus(mean(z), h))
		other := func() int { return plus(unary("exp", h), infinite(h)) }
		h = choose(func() int { return dropped(h, "h") }, other)
	}
	output := linear(plus(h, skip), "o")
	shapes := map[string][]int{"v": {8, 13}, "w0": {8, 8}, "w1": {8, 8}, "w2": {8, 8}, "o": {5, 8}}
	return programOptions(t, shapes, fmt.Sprintf(`"operations":[%s],"output":%d`,
		strings.Join(operations, ","), output))
}

// TestModes: of a program that differs in training and in evaluation a pass computes what it takes alone.
// Losses and weights are those of the program of training, by the same calls of kernels, and logits those of
// the program of evaluation. Plans are exact to the byte.
func TestModes(t *testing.T) {
	g := tangle(t, 60, 40)
	for _, parallel := range []string{"", "graph=2", "tensor=2", "pipeline=2"} {
		settings := func(o Options) Options {
			o.Parallel, o.Epochs, o.Threads, o.Optimizer, o.LR = parallel, 3, 1, "sgd", .1
			if parallel == "pipeline=2" {
				o.Chunks, o.ChunkOrder = 1, axis.Fixed
			}
			return o
		}
		both, alone := settings(modeLayers(t, true, true)), settings(modeLayers(t, true, false))
		got, _ := planAndRun(t, &Job{Graph: g, Options: both})
		want, _ := planAndRun(t, &Job{Graph: g, Options: alone})
		assert.Equal(t, want.Losses, got.Losses, parallel)

		evaluated := settings(modeLayers(t, false, true))
		evaluated.Init = filepath.Join(t.TempDir(), "init.safetensors")
		evaluated.Epochs, evaluated.LR = 1, 1e-30
		var weights bytes.Buffer
		require.NoError(t, safetensors.Write(&weights, got.Weights, nil))
		require.NoError(t, os.WriteFile(evaluated.Init, weights.Bytes(), 0o666))
		assert.Equal(t, mustRun(t, &Job{Graph: g, Options: evaluated}).Logits, got.Logits, parallel)

		both.EvalEvery, alone.EvalEvery = 100, 100
		if parallel == "pipeline=2" { // whose first stage sends zeros in place of what evaluation reads
			continue
		}
		planned, ran := kernelsOf(t, g, both)
		plannedAlone, ranAlone := kernelsOf(t, g, alone)
		assert.Equal(t, ranAlone, ran, parallel)
		assert.Equal(t, plannedAlone, planned, parallel)
	}
}
