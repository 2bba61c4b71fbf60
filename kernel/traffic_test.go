package kernel_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weft/device/devicetest"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/kernel"
	"weft/tensor"
)

// traffic is the bytes of sectors that a kernel moves (device/oncpu/traffic.cc), or the bytes that it needs.
type traffic struct{ asked, loaded, stored int }

// measured has a kernel's traffic, and the bytes that it needs: an edge's data once for each edge, a row's
// data once for each row, and each number of its results once. Numbers of heads count as whole sectors. ends
// are the bytes of sectors that rows of edges use only in part, beside their own: no kernel can load less.
type measured struct {
	kernel        string
	columns       int
	moved, needed traffic
	ends          int
}

// sectors returns a number of bytes, rounded up to whole sectors.
func sectors(bytes int) int { return (bytes + 31) / 32 * 32 }

// mostTraffic bounds the bytes that kernels move, divided by the least that any kernel can move.
const mostTraffic = 1.15

// TestTraffic compares the bytes that a card's kernels move with the bytes that they need, and
// docs/performance.md with the ratios that it counts. With -v it prints the rows of the table there.
func TestTraffic(t *testing.T) {
	devicetest.Compiler(t)
	library := filepath.Join(t.TempDir(), "libcuda.so")
	build := exec.Command("../device/oncpu/build", library, "device/oncpu/traffic")
	build.Env = append(os.Environ(), "TRAFFIC=1")
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))
	t.Setenv("WEFT_CUDA", library)
	t.Setenv("WEFT_DEVICE", "cuda")
	docs, err := os.ReadFile("../docs/performance.md")
	require.NoError(t, err)
	for _, storage := range []tensor.Element{tensor.Float32, tensor.BFloat16} {
		withStorage(t, storage, func(s *suite) {
			for _, columns := range []int{16, 64, 128, 256, 47} {
				s.withinTraffic(string(docs), s.spmmTraffic(columns))
			}
			for _, shape := range [][2]int{{1, 32}, {4, 32}, {8, 32}, {8, 64}, {8, 8}} {
				s.withinTraffic(string(docs), s.attentionTraffic(shape[0], shape[1])...)
			}
			for _, columns := range []int{64, 256} {
				s.withinTraffic(string(docs), s.softmaxSumTraffic(columns)...)
			}
			s.withinTraffic(string(docs), s.combineTraffic(64))
		})
	}
}

// withinTraffic compares the counts with mostTraffic, and with a row of the table, up to the differences
// between compilers.
func (s *suite) withinTraffic(docs string, all ...measured) {
	for _, m := range all {
		moved, needed := m.moved, m.needed
		ratio := func(moved, needed int) float64 { return float64(moved) / float64(needed) }
		whole := needed.loaded + needed.stored
		both, least := ratio(moved.loaded+moved.stored, whole), ratio(whole+m.ends, whole)
		ratios := [4]float64{
			both, least, ratio(moved.stored, needed.stored), ratio(moved.asked+moved.stored, whole),
		}
		row := fmt.Sprintf("| `%s` | %d |", m.kernel, m.columns)
		s.t.Logf("%s %.2f | %.2f | %.2f | %.2f |", row, ratios[0], ratios[1], ratios[2], ratios[3])
		if both > mostTraffic*least {
			s.t.Errorf("%s of %d columns moves %.2f times the least", m.kernel, m.columns, both/least)
		}
		var told [4]float64
		_, rest, _ := strings.Cut(docs, row)
		_, err := fmt.Sscanf(rest, "%f | %f | %f | %f |", &told[0], &told[1], &told[2], &told[3])
		require.NoError(s.t, err, "docs/performance.md:", row)
		for k := range ratios {
			assert.Near(s.t, told[k], ratios[k], .05, "docs/performance.md:", row)
		}
	}
}

// scattered returns rows of 0 to 32 edges from different sources.
func (s *suite) scattered(rows, sources int) *kernel.CSR {
	lists := make([][]int32, rows)
	for i := range lists {
		for _, j := range s.r.Perm(sources)[:s.r.IntN(33)] {
			lists[i] = append(lists[i], int32(j))
		}
	}
	return s.rows(sources, lists)
}

// trafficOf returns the traffic of the kernels that run launches, by name.
func (s *suite) trafficOf(run func()) map[string]traffic {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "traffic")
	s.t.Setenv("ON_CPU_TRAFFIC", file)
	run()
	s.team.Wait()
	lines, err := os.ReadFile(file)
	require.NoError(s.t, err)
	all := map[string]traffic{}
	for line := range strings.Lines(string(lines)) {
		var name string
		var l traffic
		_, err := fmt.Sscanln(line, &name, &l.asked, &l.loaded, &l.stored)
		require.NoError(s.t, err)
		m := all[name]
		all[name] = traffic{m.asked + l.asked, m.loaded + l.loaded, m.stored + l.stored}
	}
	return all
}

// kernel returns a kernel's name, for rows of so many columns.
func (s *suite) kernel(name string, columns int) string {
	name += map[tensor.Element]string{tensor.Float32: "_float32", tensor.BFloat16: "_bfloat16"}[s.storage]
	if columns%8 == 0 {
		name += "_vector"
	}
	return name
}

func (s *suite) spmmTraffic(columns int) measured {
	a := s.scattered(512, 4096)
	x, z := s.stored(a.Cols, columns), s.as(s.storage, s.zeros(a.Rows, columns))
	name, row := s.kernel("spmm", columns), columns*s.storage.Size()
	all := s.trafficOf(func() { s.team.SpMM(z, a, x, kernel.Scales{}, kernel.Replace) })
	ends := -a.Entries() * row
	for _, j := range a.Indices.Int32s() {
		ends += sectors((int(j)+1)*row) - int(j)*row/32*32
	}
	return measured{name, columns, all[name], traffic{
		loaded: a.Entries()*(4+row) + a.Rows*8, stored: a.Rows * row,
	}, ends}
}

// combineTraffic measures a kernel over numbers in their order.
func (s *suite) combineTraffic(columns int) measured {
	const rows = 512
	z, x, y := s.as(s.storage, s.zeros(rows, columns)), s.stored(rows, columns), s.stored(rows, columns)
	name := strings.TrimSuffix(s.kernel("combine", columns), "_vector")
	all := s.trafficOf(func() { s.team.Add(z, 2, x, 3, y) })
	bytes := z.Len() * s.storage.Size()
	return measured{name, columns, all[name], traffic{loaded: 2 * bytes, stored: bytes}, 0}
}

// attentionTraffic measures GATv1, forward and backward.
func (s *suite) attentionTraffic(heads, width int) []measured {
	a, columns, size := s.scattered(512, 512), heads*width, s.storage.Size()
	n, edges, row, head := a.Rows, a.Entries(), columns*size, sectors(4*heads)
	transposed := s.team.Transpose(a, tensor.Graph)
	k := kernel.Attention{
		Heads: heads, Width: width, Slope: .2, Source: s.stored(n, columns),
		SourceScore: s.normal(n, heads), TargetScore: s.normal(n, heads),
	}
	state := s.team.AttentionStart(n, heads, width, s.storage)
	grad, dots := s.stored(n, columns), s.normal(n, heads)
	d := kernel.AttentionGradients{
		Source: s.as(s.storage, s.zeros(n, columns)), SourceScore: s.zeros(n, heads), TargetScore: s.zeros(n, heads),
	}
	all := s.trafficOf(func() {
		s.team.Attend(state, k, a, nil, kernel.Last)
		s.team.AttendBackward(d, k, a, transposed, nil,
			kernel.Attended{Grad: grad, GradDotOut: dots, LogSum: state.Maximum})
	})
	counted := func(name string, loaded, stored int) measured {
		name = s.kernel(name, columns)
		return measured{name, columns, all[name], traffic{loaded: loaded, stored: stored}, 0}
	}
	return []measured{
		counted("attend", edges*(4+head+row)+n*(8+head), n*(row+head)),
		counted("attend_back_target", edges*(4+head)+picked(k, a, size)+n*(8+row+sectors(12*heads)+head), n*head),
		counted("attend_back_source", edges*(4+sectors(12*heads)+row)+n*(8+2*row+2*head), n*(row+head)),
	}
}

// softmaxSumTraffic is that of softmax aggregation, forward and backward.
func (s *suite) softmaxSumTraffic(columns int) []measured {
	a, size := s.scattered(512, 512), s.storage.Size()
	n, edges, row, floats := a.Rows, a.Entries(), columns*size, columns*4
	transposed := s.team.Transpose(a, tensor.Graph)
	k := kernel.Attention{
		Heads: columns, Width: 1, Source: s.stored(n, columns), InverseTemperature: s.normal(1, columns),
	}
	state := s.team.AttentionStart(n, columns, 1, s.storage)
	grad := s.stored(n, columns)
	d := kernel.AttentionGradients{
		Source: s.as(s.storage, s.zeros(n, columns)), SourceScore: s.zeros(n, columns),
	}
	all := s.trafficOf(func() {
		s.team.Attend(state, k, a, nil, kernel.Last)
		s.team.AttendBackward(d, k, a, transposed, nil,
			kernel.Attended{Grad: grad, Out: state.Out, LogSum: state.Maximum})
	})
	forward, back := s.kernel("softmax_sum", columns), s.kernel("softmax_sum_back", columns)
	return []measured{
		{forward, columns, all[forward], traffic{
			loaded: edges*(4+row) + n*8 + floats, stored: n * (row + floats),
		}, 0},
		{back, columns, all[back], traffic{
			loaded: edges*(4+2*row+floats) + n*(8+2*row+floats) + floats, stored: n * (row + floats),
		}, 0},
	}
}

// picked returns the bytes of sectors of sources' rows that the backward pass to targets reads: for each head
// only the rows on one side of LeakyReLU's knee.
func picked(k kernel.Attention, a *kernel.CSR, size int) (bytes int) {
	indptr, indices := a.Indptr.Int64s(), a.Indices.Int32s()
	source, target := k.SourceScore.Floats(), k.TargetScore.Floats()
	for i := range a.Rows {
		for _, j := range indices[indptr[i]:indptr[i+1]] {
			before := -1 // the last sector that counts
			for h := range k.Heads {
				own := target[i*k.Heads+h]
				if (source[int(j)*k.Heads+h]+own > 0) == (own > 0) {
					continue
				}
				first, last := h*k.Width*size/32, ((h+1)*k.Width*size-1)/32
				bytes += 32 * (last - max(first, before+1) + 1)
				before = last
			}
		}
	}
	return bytes
}
