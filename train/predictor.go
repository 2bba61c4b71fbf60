package train

import (
	"context"

	"weft/comm"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
	"weft/partition"
	"weft/tensor"
	"weft/train/worker"
)

// Predictor predicts some vertices at a time, as Predict does with Job.Vertices. It keeps the graph and the
// weights. Any number of goroutines may use it.
type Predictor struct {
	job     *Job
	shared  *shared
	share   *partition.Share
	weights nn.State
}

// Predictor returns a Predictor with the given weights. The mesh has one worker, and the job's graph stays
// open. It predicts a vertex, so that it refuses what no vertex can be predicted with.
func (j *Job) Predictor(ctx context.Context, weights nn.State) (*Predictor, error) {
	one := *j
	one.Vertices = []int32{0}
	s, err := one.begin(ctx, &weights)
	if err != nil {
		return nil, err
	}
	if s.Workers > 1 {
		return nil, refusal.Errorf("a Predictor has one worker, and the mesh has %d", s.Workers)
	}
	if s.Standardises(s.whole) {
		if s.Standard, err = worker.StandardIn(weights, s.whole.FeatureColumns); err != nil {
			return nil, err
		}
	}
	p := &Predictor{&one, s, partition.All(j.Graph), weights}
	_, err = p.Predict(ctx, one.Vertices, Logits)
	return p, err
}

// Predict computes the logits of vertices of the first type, each listed once, on one thread. The errors are
// those of Job.Predict.
func (p *Predictor) Predict(ctx context.Context, vertices []int32, asked Outputs) (r *Prediction, err error) {
	memory := tensor.NewMeter()
	defer memory.Close()
	c := p.shared.Config
	c.Vertices = vertices
	err = guarded(p.share, func() error {
		w, err := worker.NewInference(c, kernel.NewTeam(1, memory), comm.Alone(), p.share)
		if err != nil {
			return err
		}
		r, err = p.job.predict(ctx, w, p.weights, asked)
		return err
	})
	return r, err
}

// Threads is the number of threads that the job's settings give: how many predictions to compute at a time.
func (p *Predictor) Threads() int { return p.job.Threads(p.shared.Resolved) }
