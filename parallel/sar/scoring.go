package sar

import (
	"weft/autograd"
	"weft/kernel"
	"weft/parallel/edges"
	"weft/tensor"
)

// scoring says how one call of attention scores an edge j→i. The equations are those of gnn.Attention.
type scoring interface {
	vars() []*autograd.Var // the values, other than Source, on which scores depend
	sent() *autograd.Var   // the value whose rows are sent with Source's; nil: none

	begin() // computes from the local rows what a pass reads
	end()   // frees what begin computed

	// set sets in k from what the scores of a block are computed: its sources' rows, in the order of
	// attention.rows, and rows of the targets.
	set(k *kernel.Attention, rows []*tensor.Matrix, pick *edges.Picker)
	unset(k kernel.Attention) // frees what set computed

	// targetGradient returns the matrix in which the gradient of the rows that set picked from the targets is
	// summed.
	targetGradient(blocks int) *tensor.Matrix
	// sentGradient returns the matrix in which the gradient of sent is summed; nil: nobody reads it.
	sentGradient(blocks int) *tensor.Matrix
	// setGradients sets in d where a block's gradients are added: dRows for its sources' rows, in the order
	// of attention.rows, and dTarget for the rows that set picked.
	setGradients(d *kernel.AttentionGradients, dRows []*tensor.Matrix, dTarget *tensor.Matrix)
	// unsetGradients adds the gradients of scores in d to the gradients of the values from which the scores
	// were computed, and frees them.
	unsetGradients(d kernel.AttentionGradients, rows *tensor.Matrix)
	// finish gives the sums over all blocks to the tape. The first of dRows is the gradient of Source.
	finish(dRows []*tensor.Matrix, dTarget *tensor.Matrix)
}

// scoringOf returns how a call scores its edges.
func scoringOf(at *attention) scoring {
	switch {
	case at.InverseTemperature != nil:
		return &softmaxSum{attention: at}
	case at.SourceScore != nil:
		return &givenScores{at}
	case at.Key != nil:
		return &dotProducts{at}
	case at.ATarget == nil:
		return &gatv2{at}
	}
	return &gatv1{attention: at}
}

// gatv1 scores by LeakyReLU(aSource·source_j + aTarget·target_i). The scores of a row are computed where the
// row is, so they are not sent.
type gatv1 struct {
	*attention
	targets *tensor.Matrix // scores of the local rows as targets, during a pass
	sources *tensor.Matrix // the same as sources, until the first block of the pass, which is the local one
}

func (s *gatv1) vars() []*autograd.Var { return []*autograd.Var{s.ASource, s.ATarget} }
func (s *gatv1) sent() *autograd.Var   { return nil }

func (s *gatv1) begin() {
	x := s.Source.Value()
	s.targets, s.sources = s.scores(x), s.scores(x)
	s.tape.Team.HeadDots(x, kernel.HeadVector{A: s.ATarget.Value(), Score: s.targets},
		kernel.HeadVector{A: s.ASource.Value(), Score: s.sources})
}

func (s *gatv1) end() { s.targets.Release() }

func (s *gatv1) scores(rows *tensor.Matrix) *tensor.Matrix {
	return s.tape.Memory().New(tensor.Buffers, rows.Rows, s.Heads)
}

func (s *gatv1) set(k *kernel.Attention, rows []*tensor.Matrix, pick *edges.Picker) {
	k.SourceScore, s.sources = s.sources, nil
	if k.SourceScore == nil {
		k.SourceScore = s.scores(rows[0])
		s.tape.Team.HeadDot(k.SourceScore, rows[0], s.ASource.Value())
	}
	k.TargetScore = pick.Rows(s.targets)
}

func (s *gatv1) unset(k kernel.Attention) { k.SourceScore.Release() }

func (s *gatv1) targetGradient(int) *tensor.Matrix {
	return s.tape.Team.Zeros(tensor.Buffers, s.Source.Rows(), s.Heads)
}

func (s *gatv1) sentGradient(int) *tensor.Matrix { return nil }

func (s *gatv1) setGradients(d *kernel.AttentionGradients, dRows []*tensor.Matrix,
	dTarget *tensor.Matrix,
) {
	d.SourceScore = s.tape.Team.Zeros(tensor.Buffers, dRows[0].Rows, s.Heads)
	d.TargetScore = dTarget
}

// unsetGradients leaves the targets' scores to finish, unless there is one block, whose rows give both.
func (s *gatv1) unsetGradients(d kernel.AttentionGradients, rows *tensor.Matrix) {
	source := kernel.HeadGradient{A: s.ASource.Value(), DA: s.ASource.GradSum(), DScore: d.SourceScore}
	if s.alone {
		s.tape.Team.HeadDotsBackward(d.Source, rows, source,
			kernel.HeadGradient{A: s.ATarget.Value(), DA: s.ATarget.GradSum(), DScore: d.TargetScore})
	} else {
		s.tape.Team.HeadDotBackward(d.Source, source.DA, source.DScore, rows, source.A)
	}
	d.SourceScore.Release()
}

func (s *gatv1) finish(dRows []*tensor.Matrix, dTarget *tensor.Matrix) {
	if !s.alone {
		s.tape.Team.HeadDotBackward(dRows[0], s.ATarget.GradSum(), dTarget, s.Source.Value(),
			s.ATarget.Value())
	}
	dTarget.Release()
	s.Source.AddBlockGrad(dRows[0])
}

// givenScores scores as gatv1 does, by scores that the caller computed. The sources' scores are sent with the
// rows.
type givenScores struct{ *attention }

func (s *givenScores) vars() []*autograd.Var { return []*autograd.Var{s.SourceScore, s.TargetScore} }
func (s *givenScores) sent() *autograd.Var   { return s.SourceScore }

func (s *givenScores) begin() {}
func (s *givenScores) end()   {}

func (s *givenScores) set(k *kernel.Attention, rows []*tensor.Matrix, pick *edges.Picker) {
	k.SourceScore, k.TargetScore = rows[1], pick.Rows(s.TargetScore.Value())
}

func (s *givenScores) unset(kernel.Attention) {}

func (s *givenScores) targetGradient(int) *tensor.Matrix { return s.TargetScore.GradSum() }

func (s *givenScores) sentGradient(int) *tensor.Matrix {
	if !s.SourceScore.RequiresGrad() {
		return nil
	}
	return s.SourceScore.GradSum()
}

func (s *givenScores) setGradients(d *kernel.AttentionGradients, dRows []*tensor.Matrix,
	dTarget *tensor.Matrix,
) {
	d.TargetScore = dTarget
	if len(dRows) > 1 {
		d.SourceScore = dRows[1]
	} else {
		d.SourceScore = s.tape.Team.Zeros(tensor.Buffers, dRows[0].Rows, s.Heads)
	}
}

func (s *givenScores) unsetGradients(d kernel.AttentionGradients, _ *tensor.Matrix) {
	if !s.SourceScore.RequiresGrad() {
		d.SourceScore.Release()
	}
}

func (s *givenScores) finish(dRows []*tensor.Matrix, _ *tensor.Matrix) {
	s.Source.AddBlockGrad(dRows[0])
}

// gatv2 scores by Σ a·LeakyReLU(source_j + target_i). The targets' rows are read at each edge.
type gatv2 struct{ *attention }

func (s *gatv2) vars() []*autograd.Var { return []*autograd.Var{s.ASource, s.Target} }
func (s *gatv2) sent() *autograd.Var   { return nil }

func (s *gatv2) begin() {}
func (s *gatv2) end()   {}

func (s *gatv2) set(k *kernel.Attention, _ []*tensor.Matrix, pick *edges.Picker) {
	k.Target, k.A = pick.Rows(s.Target.Value()), s.ASource.Value()
}

func (s *gatv2) unset(kernel.Attention) {}

func (s *gatv2) targetGradient(blocks int) *tensor.Matrix {
	return separateGradient(s.Target, s.Source, blocks)
}

func (s *gatv2) sentGradient(int) *tensor.Matrix { return nil }

func (s *gatv2) setGradients(d *kernel.AttentionGradients, _ []*tensor.Matrix, dTarget *tensor.Matrix) {
	d.Target, d.A = dTarget, s.ASource.GradSum()
}

func (s *gatv2) unsetGradients(kernel.AttentionGradients, *tensor.Matrix) {}

func (s *gatv2) finish(dRows []*tensor.Matrix, dTarget *tensor.Matrix) {
	s.Source.AddBlockGrad(dRows[0])
	s.Target.AddBlockGrad(dTarget)
}

// dotProducts scores by target_i·key_j. The keys are sent with the rows.
type dotProducts struct{ *attention }

func (s *dotProducts) vars() []*autograd.Var { return []*autograd.Var{s.Key, s.Target} }
func (s *dotProducts) sent() *autograd.Var   { return s.Key }

func (s *dotProducts) begin() {}
func (s *dotProducts) end()   {}

func (s *dotProducts) set(k *kernel.Attention, rows []*tensor.Matrix, pick *edges.Picker) {
	k.Target, k.Key = pick.Rows(s.Target.Value()), rows[1]
}

func (s *dotProducts) unset(kernel.Attention) {}

func (s *dotProducts) targetGradient(blocks int) *tensor.Matrix {
	return separateGradient(s.Target, s.Source, blocks)
}

func (s *dotProducts) sentGradient(blocks int) *tensor.Matrix { return s.Key.BlockGradSum(blocks) }

func (s *dotProducts) setGradients(d *kernel.AttentionGradients, dRows []*tensor.Matrix,
	dTarget *tensor.Matrix,
) {
	d.Target, d.Key = dTarget, dRows[1]
}

func (s *dotProducts) unsetGradients(kernel.AttentionGradients, *tensor.Matrix) {}

func (s *dotProducts) finish(dRows []*tensor.Matrix, dTarget *tensor.Matrix) {
	s.Source.AddBlockGrad(dRows[0])
	s.Target.AddBlockGrad(dTarget)
	s.Key.AddBlockGrad(dRows[1])
}

// softmaxSum scores each column by inverseTemperature·source_j. Nothing is read of the targets.
type softmaxSum struct{ *attention }

func (s *softmaxSum) vars() []*autograd.Var { return []*autograd.Var{s.InverseTemperature} }
func (s *softmaxSum) sent() *autograd.Var   { return nil }

func (s *softmaxSum) begin() {}
func (s *softmaxSum) end()   {}

func (s *softmaxSum) set(k *kernel.Attention, _ []*tensor.Matrix, _ *edges.Picker) {
	k.InverseTemperature = s.InverseTemperature.Value()
}

func (s *softmaxSum) unset(kernel.Attention) {}

func (s *softmaxSum) targetGradient(int) *tensor.Matrix { return nil }
func (s *softmaxSum) sentGradient(int) *tensor.Matrix   { return nil }

// setGradients asks for the scores' gradient where the inverse temperature is learned.
func (s *softmaxSum) setGradients(d *kernel.AttentionGradients, dRows []*tensor.Matrix, _ *tensor.Matrix) {
	if s.InverseTemperature.RequiresGrad() {
		d.SourceScore = s.tape.Team.Zeros(tensor.Buffers, dRows[0].Rows, s.Heads)
	}
}

func (s *softmaxSum) unsetGradients(d kernel.AttentionGradients, rows *tensor.Matrix) {
	if d.SourceScore == nil {
		return
	}
	team := s.tape.Team
	if rows.Element == tensor.Float32 {
		team.ColumnSums(s.InverseTemperature.GradSum(), d.SourceScore, rows)
	} else {
		wide := s.tape.Memory().New(tensor.Buffers, rows.Rows, rows.Cols)
		team.Convert(wide, rows)
		team.ColumnSums(s.InverseTemperature.GradSum(), d.SourceScore, wide)
		wide.Release()
	}
	d.SourceScore.Release()
}

func (s *softmaxSum) finish(dRows []*tensor.Matrix, _ *tensor.Matrix) {
	s.Source.AddBlockGrad(dRows[0])
}
