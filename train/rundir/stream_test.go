package rundir

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"weft/internal/refusal"
	"weft/internal/require"
	"weft/train/worker"
)

// TestPredictionsAreFinite: NaN and infinite predictions are those of a damaged file.
func TestPredictionsAreFinite(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(-1)} {
		var file bytes.Buffer
		require.NoError(t,
			EncodePredictions(&file,
				worker.Rows{
					Vertices: 2, Columns: 2, Each: slices.Values([][]float32{{1, 2}, {3, float32(x)}}),
				}))
		if _, _, err := DecodePredictions(&file); !refusal.IsDamaged(err) ||
			!strings.Contains(err.Error(), "row 1 has the value") {
			t.Errorf("%v: %v", x, err)
		}
	}
}
