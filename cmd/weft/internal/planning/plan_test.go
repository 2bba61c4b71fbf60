package planning

import (
	"strings"
	"testing"
	"time"

	"weft/cmd/weft/internal/cli"
	"weft/comm"
	"weft/comm/launch"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/kernel"
	"weft/train/planner"
	"weft/train/setting"
)

// TestRatesAreOfThisProgram: kept rates are those of this version of weft, this processor and these kernels.
func TestRatesAreOfThisProgram(t *testing.T) {
	before := cli.Version
	defer func() { cli.Version = before }()
	cli.Version = "1.2.3"
	first := here()
	cli.Version = "1.2.4"
	second := here()
	if first == second || strings.ReplaceAll(first, "1.2.3", "1.2.4") != second {
		t.Errorf("%q of version 1.2.3, %q of 1.2.4", first, second)
	}
	for _, part := range []string{cli.ProcEntry("/proc/cpuinfo", "model name"), kernel.SIMD()} {
		assert.Contains(t, first, part, "does not name")
	}
}

// TestSharers: of the processes on a machine no more share its cores than are planned for, and as many as
// --per-machine says.
func TestSharers(t *testing.T) {
	for _, c := range []struct{ workers, perMachine, want int }{{2, 0, 2}, {3, 0, 3}, {8, 0, 3}, {8, 5, 5}} {
		ends := comm.InProcess(3)
		type answer struct {
			m   planner.Machine
			err error
		}
		answers := make(chan answer, len(ends))
		for _, end := range ends {
			go func() {
				r := cli.Ranks{Ranks: launch.Ranks{Comm: comm.New(end, time.Minute)}}
				p := planCommand{workers: c.workers, sharers: c.perMachine}
				m, err := p.machine(r, &setting.Options{}, &planner.Links{})
				answers <- answer{m, err}
			}()
		}
		for range ends {
			a := <-answers
			require.NoError(t, a.err)
			assert.Equal(t, c.want, a.m.Sharers, "%+v", c)
		}
	}
}
