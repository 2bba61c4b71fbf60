package cli

import (
	"slices"
	"testing"
	"time"

	"weft/comm"
	"weft/comm/launch"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/parallel/mesh"
	"weft/tensor"
	"weft/train/setting"
)

// TestSharedSettings: ranks have to have the same value of each setting that means something to them, but for
// what each machine has of its own. Initial weights are compared themselves.
func TestSharedSettings(t *testing.T) {
	meshes := []mesh.Mesh{
		{Stages: 1, Partitions: 2, Slices: 2},
		{Stages: 2, Partitions: 2, Slices: 1},
		{Stages: 1, Partitions: 2, Slices: 1},
	}
	shared := func(o setting.Options) (texts []string) {
		for _, m := range meshes {
			text, err := sharedSettings(setting.Resolved{Options: o, Meshes: setting.Meshes{Mesh: m}})
			require.NoError(t, err)
			texts = append(texts, text)
		}
		return texts
	}
	o := setting.Defaults()
	was := shared(o)
	for _, s := range setting.All() {
		if !s.Applies(&o) {
			continue
		}
		changed, before := o, s.Text(&o)
		for _, text := range append(slices.Clone(s.Choices), "2", "1", "0.5", "0.25", "true", "false", "2h",
			"graph=3", "1GB", "file", "70/10/20", "varco") {
			if err := s.Set(&changed, text); err == nil && s.Text(&changed) != before {
				break
			}
		}
		own := slices.Contains([]string{"threads", "memory-limit", "init"}, s.Name)
		if same := slices.Equal(shared(changed), was); same != own || s.Text(&changed) == before {
			t.Errorf("%s %s instead of %s: the same settings %v, want %v", s.Name,
				s.Text(&changed), before, same, own)
		}
	}
}

// TestCheckAlone: tasks that Slurm does not connect are refused, and only for them a library of MPI is looked
// for.
func TestCheckAlone(t *testing.T) {
	for connect, want := range map[string]string{
		"--mpi=pmi2": "give srun --mpi=pmi2 for one run of all",
		"":           "no library of MPI loads, and each task would do the whole work: install Open MPI, or give srun -n 1",
	} {
		err := checkAlone(4, func() string { return connect })
		assert.Refused(t, err, want, "%q", connect)
	}
	for _, tasks := range []int{0, 1} {
		looked := func() string { t.Errorf("%d tasks: a library is looked for", tasks); return "" }
		assert.NoError(t, checkAlone(tasks, looked), "%d tasks", tasks)
	}
}

func TestShares(t *testing.T) {
	at := func(machine string, cores ...int) (p location) {
		p.Machine = machine
		for _, c := range cores {
			p.Cores.Set(c)
		}
		return p
	}
	for _, c := range []struct {
		a, b location
		want bool
	}{
		{at("a", 0, 1), at("a", 0, 1), true},
		{at("a", 0, 1), at("a", 1, 2), true},
		{at("a", 0, 1), at("a", 2, 3), false},
		{at("a", 63, 1023), at("a", 64, 1023), true},
		{at("a", 63), at("a", 64), false},
		{at("a", 0), at("b", 0), false},
	} {
		if c.a.shares(&c.b) != c.want || c.b.shares(&c.a) != c.want {
			t.Errorf("%v and %v: not %v", c.a, c.b, c.want)
		}
	}
	memory := tensor.NewCommon()
	defer memory.Close()
	if p := ownLocation(memory); !p.shares(&p) || p.Machine == "" {
		t.Errorf("own place %v", p)
	}
}

// Goroutines of one process share all its cores and its memory.
func TestNeighbours(t *testing.T) {
	ends := comm.InProcess(3)
	type answer struct {
		n   neighbours
		err error
	}
	answers := make(chan answer, len(ends))
	for _, end := range ends {
		go func() {
			n, err := Ranks{launch.Ranks{Comm: comm.New(end, time.Minute)}}.Neighbours()
			answers <- answer{n, err}
		}()
	}
	for range ends {
		a := <-answers
		require.NoError(t, a.err)
		assert.Equal(t, []int{3, 3, 3}, a.n.Sharers)
		assert.Equal(t, []int{0, 0, 0}, a.n.Machines)
	}
}
