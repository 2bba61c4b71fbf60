package setting

import (
	"slices"
	"strings"

	"weft/gnn"
	"weft/graph"
	"weft/internal/refusal"
	"weft/nn"
	"weft/parallel/sar"
	"weft/partition"
	"weft/train/task"
)

// Whether settings fit a graph, and what they read of it.

// CheckGraph refuses a graph that cannot be trained on, before any work.
func (r *Resolved) CheckGraph(g *graph.Graph) error {
	share := partition.All(g)
	whole := &share.Whole
	outputs := r.Kind.Outputs(whole)
	if err := r.CheckCounts(whole, outputs); err != nil {
		return err
	}
	if _, err := r.BlockSpecs(share, outputs, nil); err != nil {
		return err
	}
	if err := r.Kind.Check(whole); err != nil {
		return err
	}
	if _, err := r.Kind.Metric(whole, &g.Frame(r.Target(g)).Labels); err != nil {
		return err
	}
	if r.Mesh.Partitions > whole.Vertices {
		s, _ := settingNamed("parallel")
		if r.Partitions > 0 {
			s, _ = settingNamed("partitions")
		}
		return s.refuse(&r.Options, "the graph has only %d vertices to divide; take at most as many "+
			"partitions", whole.Vertices)
	}
	return nil
}

// CheckCounts refuses a graph from which the model cannot compute so many outputs on the mesh, as far as its
// counts tell.
func (r *Resolved) CheckCounts(whole *partition.Whole, outputs int) error {
	switch {
	case whole.Vertices == 0:
		return refusal.Graph.Errorf("the graph has no vertices; import one that has some")
	case outputs < 1 && r.Task == task.Edge:
		_, err := task.RelationOf(r.Kind, whole)
		return err
	case outputs < 1:
		return refusal.Graph.Errorf("the graph has no labels to learn; import it from a source that has "+
			"labels, or with flags that name some, if the help of weft import FORMAT lists them; or learn edges "+
			"with --task %s, or labels of edges with --edge-label", task.Link)
	}
	if err := r.checkFeatures(whole); err != nil {
		return err
	}
	for _, s := range r.apply() {
		if s.checkGraph != nil {
			if err := s.checkGraph(s, r, whole, outputs); err != nil {
				return err
			}
		}
	}
	return nil
}

// CheckSome refuses a model or a mesh that cannot predict only some vertices.
func (r *Resolved) CheckSome() error {
	if mean := r.OverAll(); mean != "" {
		return refusal.Errorf("%s takes its mean over all vertices, so that no vertex can be "+
			"predicted without the others; predict all, without --vertices and --unlabelled", mean)
	}
	if r.Mesh.Slices == 1 && r.Mesh.Stages == 1 {
		return nil
	}
	return refusal.Errorf("one worker or the graph axis predicts some vertices alone, and the mesh has "+
		"other axes; give --parallel graph=%d", r.Workers)
}

// schemaOf is the schema of the graph of a share for a model with so many outputs.
func (r *Resolved) schemaOf(s *partition.Share, outputs int) (schema gnn.Schema, err error) {
	schema = sar.SchemaOf(s)
	schema.Types[0].Columns = r.InputColumns(s.Whole.Types[0].FeatureColumns, outputs)
	schema.Outputs, err = r.Kind.Types(s)
	return schema, err
}

// OutputsIn is the number of outputs that weights of the model tell; 0: they do not.
func (r *Resolved) OutputsIn(weights nn.State) int {
	switch model := r.Program.Program; {
	case r.Task == task.Edge && model == nil:
		return gnn.DecoderOutputs(weights, r.DecoderLayers)
	case r.Task == task.Edge && len(model.EdgeOutputs) == 1:
		return model.OutputsByRelation()[0].Columns
	}
	_, n := r.Widths(weights)
	return n
}

// InputColumns is the number of columns of the model's input: the features, and the outputs' labels if these
// are input.
func (r *Resolved) InputColumns(features, outputs int) int {
	if r.LabelInput > 0 {
		return features + outputs
	}
	return features
}

// checkFeatures refuses a graph whose first vertex type has no features, if the model needs some.
func (r *Resolved) checkFeatures(whole *partition.Whole) error {
	kind, _ := gnn.KindOf(r.Model)
	needs := !kind.Featureless
	if r.Program.Program != nil {
		columns, _ := r.Widths(nil)
		needs = columns > 0
	}
	if whole.Types[0].FeatureColumns > 0 || !needs || r.NodeEmbedding > 0 {
		return nil
	}
	return refusal.Graph.Errorf("the graph has no features; import it with --random-features N, or with "+
		"features of its own; or have some learned with --node-embedding N; or take --model %s, which needs "+
		"none", strings.Join(gnn.Featureless(), " or "))
}

func isSparse(t partition.WholeType) bool { return t.FeatureValues > 0 }

// Standardises says of each feature of a vertex type whether it is standardised; nil: none is.
func (r *Resolved) Standardises(t *partition.WholeType) []bool {
	switch {
	case t.FeatureColumns == 0:
	case r.NormalizeFeatures == Standard:
		return slices.Repeat([]bool{true}, t.FeatureColumns)
	case r.NormalizeFeatures == AutoFeatures && slices.Contains(t.Columns.Scaled(), true):
		return t.Columns.Scaled()
	}
	return nil
}
