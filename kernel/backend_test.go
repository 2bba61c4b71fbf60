package kernel_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/kernel"
	"weft/nn"
	"weft/optim"
	"weft/tensor"
	"weft/train/paralleltest"
)

// TestBackend: every model trains to the same bits if kernels compute at other addresses than the matrices',
// as on a device. One vertex has more in-edges than a thread works on, and some are isolated. Features are of
// either type.
func TestBackend(t *testing.T) {
	for k, model := range gnn.Names() {
		norms := []string{"batch", "layer"}
		s := gnn.Spec{
			Model: model, Layers: 3, Hidden: 12, Heads: 3, OutputHeads: 1, Norm: norms[k%2], Activation: "elu",
			Direction: "in", Dropout: .5, AttentionDropout: .1, Alpha: .2, Theta: .7, Teleport: .1,
		}
		storage := []tensor.Element{tensor.Float32, tensor.BFloat16}[k/2%2]
		want := curve(t, kernel.NewTeam, s, storage)
		assert.Equal(t, want, curve(t, kernel.NewTeamElsewhere(true), s, storage), "%s", model)
		assert.Equal(t, want, curve(t, kernel.NewTeamElsewhere(false), s, storage), "%s on the CPU", model)
	}
}

// TestPointers: pointers.h lists each address of elements in the kernels' arguments. Those that are not const
// are marked as written.
func TestPointers(t *testing.T) {
	headers, err := filepath.Glob("native/*_args.h")
	require.NoError(t, err)
	header := ""
	for _, name := range headers {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		header += string(text)
	}
	named, err := os.ReadFile("native/pointers.h")
	require.NoError(t, err)
	within := map[string]string{
		"weft_edges": "indptr indices", "weft_mask": "ids", "weft_normalization": "mean rstd gamma beta",
		"weft_workspaces": "*first", "weft_operand": "x columns", "weft_segments": "of",
	}
	comment := regexp.MustCompile(`//.*`)
	field := regexp.MustCompile(`(const )?(\w+) ([^;]+);`)
	structs := regexp.MustCompile(`typedef struct \{([^}]*)\} (\w+_args);`)
	macro := regexp.MustCompile(`(?s)#define POINTERS_OF_(\w+)\(S, R, W\)(.*?[^\\])\n`)
	got := map[string]string{}
	for _, m := range macro.FindAllStringSubmatch(string(named), -1) {
		got[m[1]] = strings.Join(strings.Fields(strings.ReplaceAll(strings.ReplaceAll(m[2], "(S, ", "("), "\\", "")), " ")
	}
	for _, m := range structs.FindAllStringSubmatch(comment.ReplaceAllString(header, ""), -1) {
		var want []string
		for _, f := range field.FindAllStringSubmatch(m[1], -1) {
			written := map[bool]string{true: "W", false: "R"}
			for _, name := range strings.Split(f[3], ",") {
				name, array := strings.CutSuffix(strings.TrimSpace(name), "[WEFT_OPERANDS]")
				if name[0] == '*' && array {
					want = append(want, fmt.Sprintf("OPERANDS(%s, S, %s,)", written[f[1] == ""], name[1:]))
					continue
				}
				for _, part := range strings.Fields(within[f[2]]) {
					if array {
						want = append(want, fmt.Sprintf("OPERANDS(R, S, %s, .%s)", name, part))
						continue
					}
					want = append(want, fmt.Sprintf("%s(%s.%s)", written[part[0] == '*'], name, strings.Trim(part, "*")))
				}
				if f[2] != "weft_onednn" && name[0] == '*' {
					want = append(want, fmt.Sprintf("%s(%s)", written[f[1] == ""], name[1:]))
				}
			}
		}
		assert.Equal(t, strings.Join(want, " "), got[m[2]], "%s", m[2])
		delete(got, m[2])
	}
	assert.Equal(t, map[string]string{}, got)
}

// curve trains a model for three epochs, and returns the losses and the parameters that it ends with.
func curve(t *testing.T, newTeam func(int, *tensor.Meter) *kernel.Team, s gnn.Spec, storage tensor.Element) string {
	const vertices, features, classes, edgeColumns = 1500, 40, 5, 3
	team := newTeam(2, tensor.NewMeter())
	defer team.Memory.Close()
	team.Storage = storage
	e := graph.Edges{}
	hub := int32(20_000)
	if kind, _ := gnn.KindOf(s.Model); kind.EdgeFeatures {
		hub = 4000 // all edges are one batch of the message function; a device's batches have more edges
	}
	for k := range hub { // vertex 7 has more in-edges than one thread works on, and the last ones none
		e.Source, e.Target = append(e.Source, k*k%1400), append(e.Target, 7)
	}
	for k := range int32(4000) {
		e.Source, e.Target = append(e.Source, k*31%1300), append(e.Target, k*k%1400)
	}
	e.FeatureColumns = edgeColumns
	for k := range edgeColumns * len(e.Source) {
		e.Features = append(e.Features, float32(k%13)/13)
	}
	p := paralleltest.Whole(t, team, paralleltest.GraphOf(t, vertices, e))
	blocks, err := s.Blocks(gnn.OneType(features, edgeColumns), classes)
	require.NoError(t, err)
	params := nn.NewParams(team, 1)
	m := gnn.Build(blocks, 0, len(blocks), gnn.Env{
		Params: params, Schema: p.Schema(), Rows: p.Types(), Propagators: p.Propagator,
	})
	o, err := optim.New(optim.Settings{Optimizer: optim.Adam, LR: .01, AdamBeta2: .999}, team, params.List)
	require.NoError(t, err)
	x := team.Memory.NewElement(tensor.Features, storage, vertices, features)
	numbers := team.Memory.New(tensor.Buffers, vertices, features)
	for i := range numbers.Floats() {
		numbers.Floats()[i] = float32(i*i%101)/50 - 1
	}
	team.Convert(x, numbers)
	y := nn.Targets{Classes: classes, Class: team.Memory.NewElement(tensor.Buffers, tensor.Int32, 1, vertices)}
	rows := team.Memory.NewElement(tensor.Buffers, tensor.Int32, 1, vertices)
	for i := range rows.Int32s() {
		rows.Int32s()[i], y.Class.Int32s()[i] = int32(i), int32(i*i%classes)
	}
	var curve strings.Builder
	for epoch := range 3 {
		tape := autograd.NewTrainingTape(team, autograd.Random{Seed: 1, Epoch: epoch})
		logits := autograd.Float32(m.Forward(gnn.StateOf(tape.Constant(x, p.Rows()))).Output())
		loss, grad := nn.LossGradient(logits, y, rows, vertices)
		tape.Backward(autograd.Root{Var: logits, Grad: grad})
		o.Step(1)
		params.Commit()
		fmt.Fprintln(&curve, loss())
	}
	for _, p := range params.List {
		fmt.Fprintln(&curve, p.Name, p.Value.Floats())
	}
	return curve.String()
}
