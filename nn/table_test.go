package nn_test

import (
	"fmt"
	"slices"
	"testing"

	"weft/autograd"
	"weft/internal/assert"
	"weft/kernel"
	"weft/nn"
)

// tableOf makes an embedding of three tables over the listed ones of ten vertices; nil: all.
func tableOf(team *kernel.Team, ids []int32) (*nn.Params, *nn.Param) {
	ps, rows := nn.NewParams(team, 7), autograd.AllHere(10)
	if ids != nil {
		rows = autograd.RowsOf(team, ids, len(ids), 10, nil)
	}
	return ps, ps.Table("convs.0.weight", rows, 3, 2, nn.Uniform(1))
}

// TestTable: a worker's rows of an embedding have the same initial values as on a worker that holds all rows.
// From a file of all rows it loads its own rows. No two rows have the same initial values.
func TestTable(t *testing.T) {
	team := newTeam(t)
	whole, all := tableOf(team, nil)
	state := whole.State()
	if got := state["convs.0.weight"].Shape; !slices.Equal(got, []int{3, 10, 2}) {
		t.Errorf("filed as %v", got)
	}
	seen := map[string]bool{}
	for i := range all.Value.Rows {
		seen[fmt.Sprint(all.Value.RowRange(i, i+1).Floats())] = true
	}
	if len(seen) != 30 {
		t.Errorf("%d rows differ, want 30", len(seen))
	}
	ids := []int32{1, 4, 9}
	var want []float32
	for table := range 3 {
		for _, id := range ids {
			want = append(want, all.Value.RowRange(10*table+int(id), 10*table+int(id)+1).Floats()...)
		}
	}
	part, some := tableOf(team, ids)
	if got := some.Value.Floats(); !slices.Equal(got, want) {
		t.Errorf("a part begins with %v, want %v", got, want)
	}
	if got := part.State()["convs.0.weight"].Shape; !slices.Equal(got, []int{3, 3, 2}) {
		t.Errorf("a part is filed as %v", got)
	}
	team.Fill(some.Value, 0)
	if err := part.Load(state); err != nil || !slices.Equal(some.Value.Floats(), want) {
		t.Errorf("a part loads %v, want %v: %v", some.Value.Floats(), want, err)
	}
}

// TestOneTable: files hold a single table without the axis of tables if asked to. Its rows on a tape have the
// RowSet of its vertices.
func TestOneTable(t *testing.T) {
	team := newTeam(t)
	ps := nn.NewParams(team, 1)
	p := ps.Table("embed.author.weight", autograd.AllHere(4), 0, 3, nn.Normal())
	if got := ps.State()["embed.author.weight"].Shape; !slices.Equal(got, []int{4, 3}) {
		t.Errorf("filed as %v", got)
	}
	if v := p.On(autograd.NewTape(team)); v.RowSet() != p.Rows {
		t.Error("its rows are not those of the vertices")
	}
	ps.Tensor("blocks", []int{2, 3, 4, 5}, nn.Constant(1))
	if got := ps.List[1]; got.Value.Rows != 24 || got.Value.Cols != 5 ||
		!slices.Equal(ps.State()["blocks"].Shape, []int{2, 3, 4, 5}) {
		t.Errorf("%d×%d, filed as %v", got.Value.Rows, got.Value.Cols, ps.State()["blocks"].Shape)
	}
}

// TestSharing: a set from Sharing has the same matrices and buffers, and in tables the rows of its own
// vertices.
func TestSharing(t *testing.T) {
	team := newTeam(t)
	ps := nn.NewParams(team, 1)
	weight := ps.Weight("lin.weight", 3, 2, nn.Uniform(1))
	table := ps.Table("table", autograd.AllHere(10), 2, 3, nn.Uniform(1))
	mean := ps.Buffer("mean", 2, 5)
	mean.Values[1] = 7
	more := ps.Sharing(team)
	assert.Equal(t, weight.Value, more.Weight("lin.weight", 3, 2, nn.Constant(0)).Value)
	some := more.Table("table", autograd.RowsOf(team, []int32{4, 9}, 2, 10, nil), 2, 3, nn.Constant(0))
	var want []float32
	for _, row := range []int{4, 9, 14, 19} {
		want = append(want, table.Value.RowRange(row, row+1).Floats()...)
	}
	assert.Equal(t, want, some.Value.Floats())
	assert.Equal(t, mean, more.Buffer("mean", 2, 0))
	defer func() { assert.Equal[any](t, "nn: other where the same model has lin.weight", recover()) }()
	ps.Sharing(team).Weight("other", 3, 2, nn.Constant(0))
}

// TestAllowBelow: a name that ends in a dot allows all names that begin with it.
func TestAllowBelow(t *testing.T) {
	ps := nn.NewParams(newTeam(t), 1)
	ps.Allow("convs.1.by.")
	single := nn.Tensor{Shape: []int{1}, Float32: []float32{1}}
	assert.NoError(t, ps.Load(nn.State{"convs.1.by.bias": single}))
	if err := ps.Load(nn.State{"convs.1.bya.bias": single}); err == nil {
		t.Error("another name was taken")
	}
}
