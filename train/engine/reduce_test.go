package engine

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"

	"weft/comm"
	"weft/comm/launch"
	"weft/internal/assert"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/axis"
	"weft/parallel/mesh"
	"weft/tensor"
)

// learners are the groups of a worker whose gradients are summed over those of c.
func learners(c *comm.Comm) mesh.Groups {
	return mesh.Groups{Samples: mesh.Samples{Learners: c, Alike: comm.Alone()}}
}

// TestReducer sums gradients of all sizes: many to a bucket, one that fills it, and one larger than it.
func TestReducer(t *testing.T) {
	const workers = 3
	sizes := []int{1, 7, bucketFloats - 3, 2, bucketFloats + 5, 1000, 1, bucketFloats, 4}
	ends := comm.InProcess(workers)
	var all sync.WaitGroup
	for rank := range workers {
		all.Go(func() {
			mem := tensor.NewMeter()
			defer mem.Close()
			team := kernel.NewTeam(1, mem)
			var params []*nn.Param
			for _, n := range sizes {
				params = append(params, &nn.Param{Grad: mem.New(tensor.Gradients, 1, n)})
			}
			c := comm.New(ends[rank], 0)
			r := newReducer(Config{
				Env: axis.Env{Team: team, Groups: learners(c)}, Training: true,
			}, params)
			for pass := range 2 {
				for i, p := range params {
					team.Fill(p.Grad, float32(rank+1)*float32(i+1+pass))
				}
				err := r.Beside(func() {
					for _, p := range params {
						r.add(p.Grad)
					}
				})
				assert.NoError(t, err)
				for i, p := range params {
					for _, k := range []int{0, p.Grad.Len() / 2, p.Grad.Len() - 1} {
						assert.Equal(t, float32(1+2+3)*float32(i+1+pass), p.Grad.Floats()[k],
							"worker %d, gradient %d", rank, i)
					}
				}
			}
			// no worker releases its memory while another copies from it
			assert.NoError(t, c.Barrier(comm.Setup))
		})
	}
	all.Wait()
}

// counting is a spool that counts what waits in it.
type counting struct {
	now  atomic.Int64
	most int64
	mu   sync.Mutex
}

type counted struct {
	data []byte
	in   *counting
}

func (s *counting) Put(_ comm.Kind, message []byte, _ comm.Path) (comm.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = max(s.most, s.now.Add(int64(len(message))))
	return counted{bytes.Clone(message), s}, nil
}

func (*counting) Takes(comm.Kind, int) (int64, bool) { return 0, false }

func (m counted) Len() int { return len(m.data) }
func (m counted) Ahead()   {}
func (m counted) Drop()    { m.in.now.Add(-int64(len(m.data))) }

func (m counted) Take(into []byte) error {
	copy(into, m.data)
	m.Drop()
	return nil
}

// TestQueuedSums: the terms and sums that wait while ranks take turns are within what the reducers count.
func TestQueuedSums(t *testing.T) {
	const ranks = 4
	s, charged := &counting{}, int64(0)
	host := comm.NewSharedWorker(comm.Alone(), make([]int, ranks), s)
	err := launch.SharedWorkers([]*comm.SharedWorker{host}, 0, func(c *comm.Comm) error {
		mem := tensor.NewMeter()
		defer mem.Close()
		team := kernel.NewTeam(1, mem)
		var params []*nn.Param
		for _, n := range []int{1000, bucketFloats + 5, 30_000} {
			params = append(params, &nn.Param{Grad: team.Zeros(tensor.Gradients, 1, n)})
		}
		r := newReducer(Config{Env: axis.Env{Team: team, Groups: learners(c)}, Training: true},
			params)
		charged += mem.Live(tensor.Buffers) - int64(4*r.bucket.Cols)
		return r.Beside(func() {
			for _, p := range params {
				r.add(p.Grad)
			}
		})
	})
	if err != nil || s.most == 0 || s.most > charged {
		t.Errorf("%v: %d bytes waited, and %d are counted", err, s.most, charged)
	}
}
