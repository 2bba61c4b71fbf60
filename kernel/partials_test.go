package kernel

import (
	"slices"
	"testing"
	"unsafe"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/tensor"
)

// noting is a card that computes nothing, and notes the kernels that it is asked to run.
type noting struct {
	elsewhere
	asked []string
}

func (c *noting) Has(string) bool { return true }

func (c *noting) Launch(kernel string, _, _ int, _ unsafe.Pointer, _ int) error {
	c.asked = append(c.asked, kernel)
	return nil
}

// SetPartials bounds the number of segments that a team on a device works on at a time.
func SetPartials(t *Team, n int) { t.partials = n }

// degrees returns a matrix whose rows have so many entries, each in another column. It has as many columns as
// the longest row has entries.
func degrees(team *Team, rows ...int) *CSR {
	starts, columns := []int64{0}, []int32(nil)
	for _, n := range rows {
		for k := range n {
			columns = append(columns, int32(k))
		}
		starts = append(starts, int64(len(columns)))
	}
	return csrOf(team, slices.Max(rows), starts, columns)
}

// overEdges aggregates along a's edges in all ways, forward and backward, with so many features of edges.
func overEdges(team *Team, a *CSR, features int) {
	const heads, width = 2, 8
	const cols = heads * width
	matrix := func(rows, cols int) *tensor.Matrix { return team.Memory.New(tensor.Activations, rows, cols) }
	x, dx, z, g := matrix(a.Cols, cols), matrix(a.Cols, cols), matrix(a.Rows, cols), matrix(a.Rows, cols)
	arg := team.Memory.NewElement(tensor.Activations, tensor.Int32, a.Rows, cols)
	transposed := team.Transpose(a, tensor.Graph)
	team.SpMM(z, a, x, Scales{}, Replace)
	team.Max(z, arg, a, x, nil, nil, Replace)
	team.MaxBackward(dx, transposed, g, arg, nil, nil)
	scores := matrix(a.Cols, heads)
	fwd := Attended{Grad: g, GradDotOut: matrix(a.Rows, heads), LogSum: matrix(a.Rows, heads)}
	d := AttentionGradients{
		Source: dx, SourceScore: matrix(a.Cols, heads), Target: matrix(a.Rows, cols), TargetScore: matrix(a.Rows, heads),
		A: matrix(1, cols), Key: matrix(a.Cols, cols), EdgeVector: matrix(features, heads), EdgeWeight: matrix(features, cols),
	}
	for _, k := range []Attention{
		{SourceScore: scores, TargetScore: fwd.LogSum}, {Target: z, A: matrix(1, cols)}, {Target: z, Key: x},
	} {
		k.Heads, k.Width, k.Source = heads, width, x
		if features > 0 {
			k.Edges = EdgeFeatures{
				Rows:       matrix(a.Entries(), features),
				Transposed: team.Memory.NewElement(tensor.Activations, tensor.Int32, 1, a.Entries()),
			}
			if k.SourceScore != nil {
				k.Edges.Vector = matrix(features, heads)
			} else {
				k.Edges.Weight = matrix(features, cols)
			}
		}
		team.Attend(team.AttentionStart(a.Rows, heads, width, tensor.Float32), k, a, nil, Last)
		team.AttendBackward(d, k, a, transposed, nil, fwd)
	}
}

// TestHubLaunches: for all segments of a kernel over edges a card takes one more launch, and one for each
// matrix that they are merged into, however many hubs there are, and however many edges they have. Attention
// does so for all rows of more than one segment.
func TestHubLaunches(t *testing.T) {
	asked := func(rows ...int) (all []string) {
		memory := tensor.NewMeter()
		defer memory.Close()
		card := &noting{}
		require.NoError(t, memory.On(card, 512<<20))
		team := NewDeviceTeam(card, 1, memory)
		a := degrees(team, rows...)
		overEdges(team, a, 0)
		return card.asked
	}
	const few, many = longRow + 1, 40 * longRow
	short := asked(segmentEntries, segmentEntries)
	hubs := asked(few, 3)
	assert.Equal(t, hubs, asked(3, many, many, few, many))
	count := func(names []string, name string) (n int) {
		for _, asked := range names {
			n += int(boolean(asked == name))
		}
		return n
	}
	for name, want := range map[string]int{
		"spmm_float32_vector_segments": 1, "max_float32_vector_segments": 1, "merge_maxima_float32": 1,
		"attend_float32_vector_segments": 1, "attend_v2_float32_vector_segments": 1, "merge_states_float32": 3,
	} {
		assert.Equal(t, 0, count(short, name), name)
		assert.Equal(t, want, count(hubs, name), name)
	}
	// The sums of SpMM, and the gradients of maxima and of the targets of GATv1, GATv2 and dot products.
	assert.Equal(t, 1+3, count(hubs, "merge_sums_float32"), "sums")
	// Rows of a few segments, which attention alone cuts.
	longer := asked(longRow, 3)
	assert.Equal(t, 0, count(longer, "spmm_float32_vector_segments"))
	assert.Equal(t, 1, count(longer, "attend_float32_vector_segments"))
}

// TestPlacesInPlans: a plan on a device has the peak of a run, with hubs, without hubs, and with more
// segments than partial results.
func TestPlacesInPlans(t *testing.T) {
	for _, features := range []int{0, 3} {
		for _, rows := range [][]int{{40, 7}, {5000, 5000, 5000}, {50_000, 9}, {9, 3000, 400_000}} {
			peak := func(plan bool) int64 {
				memory := tensor.NewMeter()
				defer memory.Close()
				card := &noting{}
				var team *Team
				if plan {
					team = NewDevicePlan(1, memory)
					require.NoError(t, memory.On(nil, 0))
				} else {
					require.NoError(t, memory.On(card, 512<<20))
					team = NewDeviceTeam(card, 1, memory)
				}
				team.partials = 100
				overEdges(team, degrees(team, rows...), features)
				return memory.DeviceUse().PeakBytes
			}
			assert.Equal(t, peak(false), peak(true), "%d features, rows of %v", features, rows)
		}
	}
}

// TestMostSegments: a matrix never has more segments than their list has room for.
func TestMostSegments(t *testing.T) {
	memory := tensor.NewMeter()
	defer memory.Close()
	require.NoError(t, memory.On(&noting{}, 64<<20))
	team := NewDeviceTeam(&noting{}, 1, memory)
	for _, rows := range [][]int{
		{2048}, {2049}, {2049, 2049, 2049}, {4096, 4097}, {16384, 16385}, {1, 18432, 18433, 2048, 3000},
	} {
		a := degrees(team, rows...)
		want := 0
		for _, n := range rows {
			if n > segmentEntries {
				want += parts(n, segmentEntries)
			}
		}
		assert.Equal(t, want, len(a.Segments))
		if a.list.Rows < want {
			t.Errorf("%d segments of rows of %v, and room for %d", want, rows, a.list.Rows)
		}
		a.Release()
	}
}
