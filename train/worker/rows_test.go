package worker

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weft/comm"
	"weft/comm/launch"
	"weft/gnn"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/mesh"
	"weft/parallel/turns"
	"weft/partition"
	"weft/tensor"
	"weft/tensor/offload"
	"weft/train/engine"
	"weft/train/setting"
)

// groupsOf are those of a worker that is among no others than world.
func groupsOf(world *comm.Comm) mesh.Groups {
	return mesh.Groups{World: world, Samples: mesh.Samples{All: world}}
}

// TestRowsInOrder: the rows of three workers, one of which has none, come to worker 0 in the order of their
// vertices, in batches of at most 4 MiB. Of two rows that are taken the others are not passed on.
func TestRowsInOrder(t *testing.T) {
	const vertices, columns = 11, 1 << 18 // four rows are 4 MiB
	own := [][]int32{{1, 3, 4, 9, 10}, {}, {0, 2, 5, 6, 7, 8}}
	for name, c := range map[string]struct {
		ids    [][]int32
		refuse string // how the error goes on
		stop   bool   // after one batch
	}{
		"all": {ids: own},
		"missing": {
			ids:    [][]int32{{1, 3, 4, 9}, {}, {0, 2, 5, 6, 7, 8}},
			refuse: "the workers hold 2 of the vertices 8 to 10",
		},
		"twice": {
			ids:    [][]int32{{1, 3, 4, 9, 10}, {}, {0, 3, 5, 6, 7, 8}},
			refuse: "vertex 3 belongs to two partitions",
		},
		"stopped": {ids: own, refuse: "the rows of 7 vertices were not taken", stop: true},
	} {
		t.Run(name, func(t *testing.T) {
			var sizes []int
			err := launch.Workers(3, 0, func(world *comm.Comm) error {
				mem := tensor.NewMeter()
				defer mem.Close()
				ids := c.ids[world.Rank()]
				m := mem.New(tensor.Activations, len(ids), columns)
				for i, v := range ids {
					m.Floats()[i*columns], m.Floats()[(i+1)*columns-1] = float32(v), -float32(v)
				}
				w := &member{Groups: groupsOf(world)}
				return w.inOrder(m, ids, vertices, func(rows Rows) error {
					if world.Rank() != 0 || rows.Vertices != vertices || rows.Columns != columns {
						t.Errorf("rank %d is given %d × %d", world.Rank(), rows.Vertices, rows.Columns)
					}
					v := 0
					for batch := range rows.Each {
						sizes = append(sizes, len(batch)/columns)
						for row := range slices.Chunk(batch, columns) {
							assert.Equal(t, float32(v), row[0], "row %d is that of vertex", v)
							assert.Equal(t, -float32(v), row[columns-1], "row %d is that of vertex", v)
							v++
						}
						if c.stop {
							break
						}
					}
					return nil
				})
			})
			if c.refuse == "" {
				require.NoError(t, err)
				assert.Equal(t, []int{4, 4, 3}, sizes)
			} else if err == nil || !strings.Contains(err.Error(), c.refuse) {
				t.Errorf("%v, want %s", err, c.refuse)
			}
		})
	}
}

// waiting is a spool that counts the bytes in it.
type waiting struct {
	turns.Spool
	now, most atomic.Int64
}

// counted is a message that counts until it is taken.
type counted struct {
	comm.Message
	in *waiting
}

func (w *waiting) Put(k comm.Kind, message []byte, p comm.Path) (comm.Message, error) {
	m, err := w.Spool.Put(k, message, p)
	now := w.now.Add(int64(len(message)))
	w.most.Store(max(w.most.Load(), now)) // only one rank is at work
	return counted{m, w}, err
}

func (m counted) Take(into []byte) error {
	m.in.now.Add(-int64(m.Len()))
	return m.Message.Take(into)
}

// TestRowsAtRest: of the rows that ranks of one worker have on disk no more than a batch is in memory, as
// messages or out of the file, and each page is read once for the batches that have rows of it.
func TestRowsAtRest(t *testing.T) {
	const ranks, columns, batches = 3, 1 << 10, 7
	const vertices = batches * batchBytes / 4 / columns
	file, err := offload.Open(t.TempDir())
	require.NoError(t, err)
	defer file.Close()
	mem := tensor.NewMeter()
	defer mem.Close()
	spool := &waiting{Spool: turns.Spool{Memory: mem}}
	host := comm.NewSharedWorker(comm.Alone(), make([]int, ranks), spool)
	spool.Offload(host, file, nil, 2*batchBytes) // a rank has a third of seven
	rows, before := 0, int64(0)
	err = launch.SharedWorkers([]*comm.SharedWorker{host}, 0, func(world *comm.Comm) error {
		mem := mem.Another()
		defer mem.Close()
		var ids []int32
		for v := world.Rank(); v < vertices; v += ranks {
			ids = append(ids, int32(v))
		}
		m := mem.New(tensor.Activations, len(ids), columns)
		for i, v := range ids {
			m.Floats()[i*columns] = float32(v)
		}
		world.LocalBarrier()
		w := &member{Groups: groupsOf(world), Team: kernel.NewTeam(1, mem)}
		if world.Rank() == 0 {
			before = mem.OnDisk().Read
		}
		return w.inOrder(m, ids, vertices, func(all Rows) error {
			for batch := range all.Each {
				for row := range slices.Chunk(batch, columns) {
					assert.Equal(t, float32(rows), row[0], "row %d is that of vertex", rows)
					rows++
				}
			}
			return nil
		})
	})
	require.NoError(t, err)
	assert.Equal(t, vertices, rows)
	if most := spool.most.Load(); most > batchBytes*11/10 {
		t.Errorf("%d bytes of messages wait, where a batch has %d", most, batchBytes)
	}
	if read := mem.OnDisk().Read - before; read == 0 || read > batches*batchBytes*11/10 {
		t.Errorf("%d bytes are read of rows that have %d", read, batches*batchBytes)
	}
}

// TestAgree: the loss is the sum of all workers' parts, and what one asks for all learn.
func TestAgree(t *testing.T) {
	for _, asks := range [][3]Asks{{}, {Stop}, {2: Stop | Writing}, {Save, TimeUp, Writing}} {
		err := launch.Workers(3, 0, func(c *comm.Comm) error {
			mem := tensor.NewMeter()
			defer mem.Close()
			team := kernel.NewTeam(1, mem)
			w := &model{Params: nn.NewParams(team, 1)}
			w.Team, w.Groups = team, mesh.Mesh{Stages: 1, Partitions: 3, Slices: 1}.Join(c)
			loss, asked, err := w.agree(1, []float64{.5, 2, -.25}[c.Rank()], asks[c.Rank()])
			assert.Equal(t, 2.25, loss, "worker %d", c.Rank())
			assert.Equal(t, asks[0]|asks[1]|asks[2], asked, "worker %d", c.Rank())
			return err
		})
		assert.NoError(t, err)
	}
}

// TestLoadRefused: an error of one worker's file is one of all.
func TestLoadRefused(t *testing.T) {
	broken := errors.New("a broken file")
	err := launch.Workers(2, 0, func(c *comm.Comm) error {
		mem := tensor.NewMeter()
		defer mem.Close()
		team := kernel.NewTeam(1, mem)
		w := &model{Params: nn.NewParams(team, 1)}
		w.Resolved, w.Team = &setting.Resolved{}, team
		w.Groups = mesh.Mesh{Stages: 1, Partitions: 2, Slices: 1}.Join(c)
		var localErr error
		if c.Rank() == 1 {
			localErr = broken
		}
		assert.Error(t, w.Load(nn.State{}, localErr), "worker %d goes on", c.Rank())
		return w.Load(nn.State{}, nil)
	})
	assert.NoError(t, err)
}

// TestWorkOfStages: of blocks that cost 2, 3 and 5 multiply-adds a vertex the second stage has the last two.
func TestWorkOfStages(t *testing.T) {
	grid := mesh.Mesh{Stages: 2, Partitions: 2, Slices: 1}
	w := &model{member: member{
		Groups: mesh.Groups{Mesh: grid}, Share: &partition.Share{Whole: partition.Whole{Vertices: 7}},
	}}
	for _, cost := range []int{2, 3, 5} {
		w.Blocks = append(w.Blocks, gnn.BlockSpec{Cost: gnn.Cost{Vertex: cost}})
	}
	w.Stage.Cuts = []int{0, 1, 3}
	all := w.Stages()
	if len(all) != 2 || all[0].Work != .2 || all[1].Work != .8 || !slices.Equal(all[0].Blocks, []int{0, 1}) ||
		!slices.Equal(all[1].Blocks, []int{1, 3}) {
		t.Errorf("%+v", all)
	}
	for s, stage := range all {
		want := []int{grid.Rank(mesh.Coords{Stage: s}), grid.Rank(mesh.Coords{Stage: s, Partition: 1})}
		assert.Equal(t, want, stage.Workers, "stage %d has the workers", s)
	}
	w.Groups.Mesh.Stages = 1
	if stages := w.Stages(); stages != nil {
		t.Errorf("one stage: %+v", stages)
	}
}

// TestSummaryOfAStage: times are means over the stage's workers, and bytes are sums.
func TestSummaryOfAStage(t *testing.T) {
	s := StageSummary{Stage: Stage{Workers: []int{0, 1, 2, 3}}}
	for k := range time.Duration(4) {
		s.add(engine.StageReport{
			Compute: (k + 1) * time.Second, Bubble: 2 * k * time.Second, Wait: 3 * time.Second,
		}, int64(10+k))
	}
	if s.Compute != 2.5 || s.Bubble != 3 || s.Wait != 3 || s.Sent != 46 {
		t.Errorf("%+v", s)
	}
	assert.Equal(t, 1.5, stageImbalance([]StageSummary{{Compute: 1}, {Compute: 3}}), "imbalance")
}

// TestTotalsOfWorkers: each worker's numbers stand at its rank, and the traffic is summed over them.
func TestTotalsOfWorkers(t *testing.T) {
	err := launch.Workers(2, 0, func(c *comm.Comm) error {
		mem := tensor.NewMeter()
		defer mem.Close()
		grid := mesh.Mesh{Stages: 1, Partitions: 2, Slices: 1}
		w := &Worker{}
		w.Resolved = &setting.Resolved{Meshes: setting.Meshes{Mesh: grid, SampleGroups: 1, Workers: 2}}
		w.Team, w.Groups = kernel.NewTeam(1, mem), grid.Join(c)
		r := int64(c.Rank())
		w.LastPass = Tally{
			EdgeColumns: ByLayer{"a": 5 + r, "b": 10},
			Waited:      time.Second * time.Duration(1+r), Seconds: 4,
		}
		w.LastPass.Sent.Halo, w.LastPass.Sent.Gradient = Traffic{100 + r, 3}, Traffic{7, 1}
		all, err := w.Totals()
		if r > 0 {
			w.Workers = 1
			none, again := w.Totals()
			assert.Equal(t, 0, all.Workers, "totals on another worker than the first")
			assert.Equal(t, 0, none.Workers, "totals on another worker than the first")
			return errors.Join(err, again)
		}
		want := Communication{Halo: Traffic{201, 6}, Gradient: Traffic{14, 2}}
		if all.Workers != 2 || !slices.Equal(all.EdgeColumns, []int64{15, 16}) ||
			!slices.Equal(all.SentBytes, []int64{107, 108}) ||
			!slices.Equal(all.WaitSeconds, []float64{1, 2}) || all.WaitShare != .5 ||
			all.Communication != want {
			t.Errorf("%+v", all)
		}
		if err != nil {
			return err
		}
		w.Workers = 1 // which holds both partitions
		all, err = w.Totals()
		if all.Workers != 1 || !slices.Equal(all.EdgeColumns, []int64{31}) ||
			!slices.Equal(all.SentBytes, []int64{215}) ||
			!slices.Equal(all.WaitSeconds, []float64{2}) || all.WaitShare != .5 || all.Communication != want {
			t.Errorf("of one worker: %+v", all)
		}
		return err
	})
	assert.NoError(t, err)
}

// TestDeviceUsage: of a card's memory the worker with most counts, and copies, waits and the host's memory
// are summed over the ranks.
func TestDeviceUsage(t *testing.T) {
	d := &DeviceUsage{Name: "a card", OnCPU: OnCPU{}}
	use := func(peak, host, toDevice, toHost int64, waits, launches int,
		onCPU map[string]int64,
	) tensor.DeviceUse {
		return tensor.DeviceUse{
			PeakBytes: peak, HostBytes: host, ToDevice: toDevice, ToHost: toHost, Waits: waits,
			Launches: launches, OnCPU: onCPU,
			Graphs: tensor.Graphs{Launches: 1, Kernels: launches, Changed: 2},
		}
	}
	d.add(use(5, 20, 300, 4000, 1, 100, map[string]int64{"b": 1, "a": 20}))
	d.add(use(7, 10, 100, 1000, 2, 20, map[string]int64{"c": 3, "a": 40}))
	d.add(use(6, 1, 10, 100, 4, 3, nil))
	assert.Equal(t, &DeviceUsage{
		Name: "a card", PeakBytes: 7, HostBytes: 31, ToDeviceBytes: 410, ToHostBytes: 5100, Waits: 7,
		Launches: 123, Graphs: tensor.Graphs{Launches: 3, Kernels: 123, Changed: 6},
		OnCPU: OnCPU{{"a", 60}, {"b", 1}, {"c", 3}},
	}, d)
}
