package paralleltest

import (
	"context"
	"strings"
	"testing"

	"weft/internal/refusal"
	"weft/internal/require"
	"weft/train"
)

// TestWorkAlone: a setting that must change only how work is done changes no bit of losses, logits and
// weights in a pipeline of several chunks, or is refused by its name.
func TestWorkAlone(t *testing.T) {
	refused := []string{
		"aggregation-order=transform-first", "aggregation-order=aggregate-first",
		"prefetch=3", "keep-halo=true",
		"halo=cover", "aggregation-chunks=2",
	}
	g := Tangled(t)
	for _, model := range []string{"gcn", "gat"} {
		t.Run(model, func(t *testing.T) {
			run := func(settings string) (*train.Result, error) {
				o := with(train.Defaults(), "layers=4 hidden=10 threads=1 epochs=3 chunks=8 "+
					"history-period=2 dropout=.3 lr=.005 model="+model+" "+settings)
				job := &train.Job{Graph: g, Options: o, Mesh: Grid(2, 2, 1), Parts: inTurn(t, g, 2)}
				return job.Run(context.Background())
			}
			want, err := run("")
			require.NoError(t, err)
			got, err := run("threads=3 recompute=none")
			require.NoError(t, err)
			sameBits(t, "done otherwise", got, want)
			for _, s := range refused {
				name, _, _ := strings.Cut(s, "=")
				if strings.HasPrefix(name, "aggregation") && !with(train.Defaults(),
					"model="+model).Uses(name) {
					continue // the model ignores it
				}
				_, err := run(s)
				if !refusal.Is(err) || !strings.HasPrefix(err.Error(), "--"+name+" ") {
					t.Errorf("%s: %v, want a refusal of it", s, err)
				}
			}
		})
	}
}
