package train

import (
	"cmp"
	"context"
	"fmt"

	"weft/internal/refusal"
	"weft/nn"
	"weft/partition"
	"weft/train/task"
	"weft/train/worker"
)

// validation opens what the worker of a partition needs of the graph on which the model is validated: nil if
// that is the same graph.
func (s *session) validation(p int, use func(*worker.Validation) error) error {
	v := s.validate
	if v == nil {
		return use(nil)
	}
	return v.open(p, func(share *partition.Share) error {
		return use(&worker.Validation{Config: v.Config, Share: share, Dataset: v.job.Dataset})
	})
}

// beginValidation is the session of the graph on which the model is validated. It refuses a graph that the
// model does not fit.
func (s *session) beginValidation(ctx context.Context) (*session, error) {
	if s.Task == task.Edge {
		return nil, refusal.Errorf("--validate: validates labels of vertices, and --edge-label %s learns those of "+
			"edges; leave it out", s.EdgeLabel)
	}
	j, o, whole := s.job, s.job.Validate, s.whole
	o.Options, o.Mesh, o.Model, o.Loss, o.Engine, o.Comm, o.Machines = j.Options, j.Mesh, j.Model,
		j.Loss, j.Engine, j.Comm, j.Machines
	if _, err := o.Like(j.Columns()); err != nil {
		return nil, aboutValidation(o, err)
	}
	v, err := o.session(ctx, s.Resolved, &nn.State{}, false)
	if err == nil {
		err = cmp.Or(s.Kind.CheckMeasured(v.whole), s.checkFeatures(v.whole))
	}
	if err != nil {
		return nil, aboutValidation(o, err)
	}
	switch w := v.whole; {
	case w.Splits[s.Split.Number].Val == 0:
		err = refusal.Errorf("--split %v has no validation vertices; import it with --split val", s.Split)
	case v.Outputs > s.Outputs || (w.ValueColumns > 0) != (whole.ValueColumns > 0):
		err = refusal.Errorf("its labels are of %d classes or columns, and those of the graph that is "+
			"trained on of %d; give graphs with the same labels", v.Outputs, s.Outputs)
	case w.ValueColumns != whole.ValueColumns:
		err = refusal.Errorf("it has %d values to predict, and the graph that is trained on has %d; give "+
			"graphs with the same labels", w.ValueColumns, whole.ValueColumns)
	}
	v.Outputs = s.Outputs
	return v, aboutValidation(o, err)
}

// checkFeatures refuses a validation graph whose vertex types or features differ from those of the training
// graph.
func (s *session) checkFeatures(validated *partition.Whole) error {
	for kind := range validated.Types {
		t, like := &validated.Types[kind], s.whole.TypeLike(validated, kind)
		if like < 0 {
			return refusal.Errorf("it has vertices of the type %q, and the graph that is trained on has "+
				"none; give graphs with the same vertex types", t.Type)
		}
		suffix := ""
		if len(validated.Types) > 1 {
			suffix = fmt.Sprintf(" of the vertex type %q", t.Type)
		}
		trained := &s.whole.Types[like]
		switch {
		case t.FeatureColumns != trained.FeatureColumns:
			return refusal.Errorf("it has %d features%s, and the graph that is trained on has %d; give "+
				"graphs with the same features", t.FeatureColumns, suffix, trained.FeatureColumns)
		case t.FeatureValues > 0 && s.Standardises(trained) != nil:
			return refusal.Errorf("its features%s are sparse, and those of the graph that is trained on are "+
				"standardised; import it with --dense-features", suffix)
		}
	}
	return nil
}

// aboutValidation prefixes a refusal of the validation graph's job with the setting and the graph. It then
// does not seem to be about the training graph.
func aboutValidation(j *Job, err error) error {
	if err == nil || !refusal.Is(err) {
		return err
	}
	return refusal.Errorf("--validate %s: %v", j.Dataset, err)
}
