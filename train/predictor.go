package train

import (
	"context"

	"weft/graph/appended"
	"weft/nn"
)

// Predictor predicts some vertices at a time, as Predict does with Job.Vertices. It keeps the graph and the
// weights. Any number of goroutines may use it.
type Predictor struct {
	job     Job
	base    *appended.Base
	alone   *appended.Graph // with nothing appended
	weights nn.State
	threads int
}

// Predictor returns a Predictor with the given weights. The mesh has one worker, and the job's graph stays
// open. It predicts a vertex, so that it refuses what no vertex can be predicted with.
func (j *Job) Predictor(ctx context.Context, weights nn.State) (*Predictor, error) {
	r, err := j.resolve()
	if err != nil {
		return nil, err
	}
	p := &Predictor{job: *j, base: appended.On(j.Graph), weights: weights, threads: j.Threads(r)}
	p.job.Options.Threads = 1
	if p.alone, err = p.base.With(nil); err != nil {
		return nil, err
	}
	_, err = p.Predict(ctx, []int32{0}, nil, Logits)
	return p, err
}

// Predict computes the logits of vertices of the first type, each listed once, of the graph with an addition;
// nil: of the graph alone. It takes one thread. The errors are those of Job.Predict, and refusals of an
// addition that does not fit the graph.
func (p *Predictor) Predict(ctx context.Context, vertices []int32, added *appended.Addition,
	asked Outputs,
) (r *Prediction, err error) {
	job := p.job
	job.Vertices, job.Appended = vertices, p.alone
	if added != nil {
		if job.Appended, err = p.base.With(added); err != nil {
			return nil, err
		}
	}
	return job.Predict(ctx, p.weights, asked)
}

// Threads is the number of threads that the job's settings give: how many predictions to compute at a time.
func (p *Predictor) Threads() int { return p.threads }
