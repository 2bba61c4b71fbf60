package setting

import (
	"cmp"
	"math"
	"slices"

	"weft/gnn"
	"weft/internal/refusal"
	"weft/parallel/sar"
	"weft/partition"
	"weft/train/task"
)

// The blocks of the model that settings describe, on a graph.

// BlockSpecs are the blocks of the model on the graph of a share, with so many outputs. If own is not nil, it
// replaces the model. With sparse features the first block costs less, in proportion to their values.
func (r *Resolved) BlockSpecs(s *partition.Share, outputs int,
	own func(features, outputs int) []gnn.BlockSpec,
) (blocks []gnn.BlockSpec, err error) {
	whole := &s.Whole
	input := r.InputColumns(whole.Types[0].FeatureColumns, outputs)
	if own != nil {
		blocks = slices.Clone(own(input, outputs))
	} else {
		schema, err := r.schemaOf(s, outputs)
		if err != nil {
			return nil, err
		}
		if r.Task == task.Edge {
			blocks, err = r.edgeBlocks(s, schema, outputs)
		} else {
			blocks, err = r.Blocks(schema, outputs)
		}
		if err != nil {
			return nil, err
		}
	}
	if r.RequireEdgeFeatures && !gnn.ReadEdgeFeatures(blocks) {
		if r.Uses("use-edge-features") {
			return nil, refusal.Errorf("--require-edge-features: the model %s uses edge features only with "+
				"--use-edge-features; give that, or leave it out", r.Model)
		}
		return nil, refusal.Errorf("--require-edge-features: the model %s does not use edge features; take "+
			"--model %s, or leave it out", r.Model, modelsWith(usesFeatures))
	}
	if t := &whole.Types[0]; t.FeatureValues > 0 && len(blocks) > 0 {
		share := float64(t.FeatureValues) / (float64(t.Vertices) * float64(t.FeatureColumns))
		blocks[0].Cost.Vertex = int(math.Ceil(share * float64(blocks[0].Cost.Vertex)))
	}
	if r.Mesh.Stages > 1 {
		err = checkStages(r.Mesh, blocks)
	}
	return blocks, err
}

// edgeBlocks are blocks whose only output is rows of edges: the blocks of a program, or of a model by name
// with a decoder behind them.
func (r *Resolved) edgeBlocks(s *partition.Share, schema gnn.Schema, outputs int) ([]gnn.BlockSpec, error) {
	decoder, err := r.edgeDecoder(s, outputs)
	if err != nil {
		return nil, err
	}
	if r.Program.Program != nil {
		relation, scored := decoder.Relation, ""
		if name, silent := partition.IsSilent(relation); silent {
			relation, scored = name, relation
		}
		model, err := r.programFor(relation)
		switch {
		case err != nil:
			return nil, err
		case r.Undecoded:
			return model.Blocks(schema, 0, r.Mesh.Stages)
		}
		return model.EdgeBlocks(schema, relation, scored, outputs, r.Mesh.Stages)
	}
	blocks, err := r.Blocks(schema, decoder.Width)
	if r.Undecoded {
		return blocks, err
	}
	return append(blocks, decoder.Block()), err
}

// EdgeScorer is the last part of the model, which an Undecoded model lacks.
func (r *Resolved) EdgeScorer(s *partition.Share, outputs int) (d gnn.EdgeScorer, err error) {
	decoder, err := r.edgeDecoder(s, outputs)
	if err != nil || r.Program.Program == nil {
		return decoder.Scorer(), err
	}
	schema, err := r.schemaOf(s, outputs)
	if err != nil {
		return d, err
	}
	relation, _ := partition.IsSilent(decoder.Relation)
	model, err := r.Program.Undecoded(relation)
	if err != nil {
		return d, err
	}
	return model.EdgeScorer(schema, relation), nil
}

// edgeDecoder is the last block of a model by name that learns labels of edges. It reads rows of vertices.
func (r *Resolved) edgeDecoder(s *partition.Share, outputs int) (d gnn.EdgeDecoder, err error) {
	relation, err := task.RelationOf(r.Kind, &s.Whole)
	if err != nil {
		return d, err
	}
	spec := sar.SchemaOf(s).Relations[relation]
	name := spec.Name
	if task.PassesEarlier(r.Kind, &s.Whole) && !r.Undecoded {
		name = partition.SilentName(name)
	}
	return gnn.EdgeDecoder{
		Relation: name, Source: spec.Source, Target: spec.Target,
		Width: cmp.Or(r.OutFeatures, r.Hidden), Features: spec.Columns,
		Layers: r.DecoderLayers, Hidden: cmp.Or(r.DecoderHidden, r.Hidden), Outputs: outputs,
		Dropout: r.Dropout,
	}, nil
}
