package planner

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"weft/comm"
	"weft/configs"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/parallel/mesh"
	"weft/train/setting"
)

// TestShippedMachines: each file of configs/machines is read, with the figures of NVIDIA's data sheets: links
// reach four fifths of theirs.
func TestShippedMachines(t *testing.T) {
	figures := map[string][]float64{ // workers; GB, GB/s, TFLOP/s in float32, bfloat16; GB/s to cards, nodes
		"a100x4-pcie":   {4, 80, 1935, 19.5, 312, 25, 0},
		"h100x2-nvlink": {2, 94, 3900, 60, 835, 240, 0},
		"h100x8":        {8, 80, 3350, 67, 989, 360, 0},
		"h100x8x64":     {512, 80, 3350, 67, 989, 360, 40},
	}
	names := configs.Machines()
	assert.Len(t, names, len(figures))
	for _, name := range names {
		h, err := ReadHardware(name)
		require.NoError(t, err, name)
		c := &h.Card
		assert.Equal(t, figures[name], []float64{
			float64(h.Workers()), c.Memory / 1e9, c.Copy / 1e9, c.Flops / 1e12,
			c.BFloat16Flops / 1e12, h.CardLink / 1e9, h.NodeLink / 1e9,
		}, name)
	}
}

// TestReadHardware: what a file lacks, or has beside a machine's keys, is refused by file and key.
func TestReadHardware(t *testing.T) {
	const (
		card = `
card:
  name: "42"
  memory_bytes: 8e9
  copy_bytes_per_second: 4e11
  flops_per_second: 2e13
  bfloat16_flops_per_second: 8e13
  to_device_bytes_per_second: 1.2e10
  to_host_bytes_per_second: 1.1e10
  launch_seconds: 5e-6
`
		node = "nodes: 1\ncards: 2\nhost_memory_bytes: 64e9\ncard_link_bytes_per_second: 20e9"
		two  = "nodes: 2\ncards: 2\nhost_memory_bytes: 64e9\ncard_link_bytes_per_second: 20e9"
	)
	for text, want := range map[string]string{
		node + card: "",
		two + "\nnode_link_bytes_per_second: 1e9" + card: "",
		two + card: "node_link_bytes_per_second: 0; give 1e+06 to 1e+18",
		node + "\nnode_link_bytes_per_second: 1e9" + card: "node_link_bytes_per_second: 1e+09, and there is one node; leave it out",
		node + "\nlatency: 1" + card:                      `unknown field "latency"`,
		node + card + "  l3: 1\n":                         `unknown field "l3"`,
		node + "\nnodes: 2" + card:                        `line 5: `,
		node:                                              "card.memory_bytes: 0; give 1 to 1e+15",
		node + card + "  efficiency: 2\n":                 "card.efficiency: 2; give 0.001 to 1",
		node + card + "  efficiency: all\n":               "card.efficiency: string; give a number",
		"nodes: many" + card:                              "nodes: string; give a whole number",
		"nodes: 1.5" + card:                               "nodes: number 1.5; give a whole number",
		"nodes: 2000" + card:                              "nodes: 2000; give 1 to 1024",
		"nodes: 64\ncards: 17" + card:                     "cards: 17; give 1 to 16",
		"nodes: [1":                                       "line 1: ",
		"- 1":                                             "cannot unmarshal array",
		"nodes: &n 1\ncards: *n":                          "line 2: an alias; write the value",
		"":                                                "is empty; docs/gpu.md has a machine's keys",
		"nodes: 1\n---\nnodes: 2":                         "holds several YAML documents; one was expected",
		node + "\ncard: [1]":                              "card: array; give its keys",
		node + "\ncard:\n  name: 42":                      "card.name: number; give text",
		"nodes: 1\ncards: 1\nhost_memory_bytes: -1" + card:   "host_memory_bytes: -1; give 1 to 1e+18",
		"nodes: 1\ncards: 1\nhost_memory_bytes: .nan" + card: "host_memory_bytes: string; give a number",
	} {
		path := filepath.Join(t.TempDir(), "mine.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
		h, err := ReadHardware(path)
		if want != "" {
			assert.Refused(t, err, path+": "+want, text)
			continue
		}
		require.NoError(t, err, text)
		assert.Equal(t, CardSpec{"42", 8e9, 4e11, 2e13, 8e13, 1.2e10, 1.1e10, 5e-6, 0}, h.Card)
	}
	_, err := ReadHardware("h100x9")
	assert.EqualRefusal(t, err, "h100x9: must be a100x4-pcie, h100x2-nvlink, h100x8, h100x8x64, or a file "+
		"whose name ends in .yaml")
	_, err = ReadHardware("none.yaml")
	assert.EqualRefusal(t, err, "none.yaml: there is no such file")
	tmp := func(name string) string { return filepath.Join(t.TempDir(), name) }
	pipe, folder, endless, long := tmp("pipe.yaml"), tmp("folder.yml"), tmp("endless.yaml"), tmp("long.yaml")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	require.NoError(t, os.Mkdir(folder, 0o777))
	require.NoError(t, os.Symlink("/dev/zero", endless))
	require.NoError(t, os.WriteFile(long, make([]byte, 64<<10+1), 0o666))
	for path, want := range map[string]string{
		pipe: "is a named pipe, not a file", folder: "is a directory, not a file",
		endless: "is a device, not a file", long: "longer than the 65536 bytes that such a file may have",
	} {
		_, err := ReadHardware(path)
		assert.EqualRefusal(t, err, path+": "+want)
	}
}

// TestMachineOfHardware: a message of 8 GB, by hand. In a node of the file it passes the host's memory, at 50
// GB/s each way, or the link of cards at 360 GB/s; between nodes 40 GB/s besides.
func TestMachineOfHardware(t *testing.T) {
	h, err := ReadHardware("h100x8x64")
	require.NoError(t, err)
	moves := func(workers int, grid mesh.Mesh, direct bool, kind comm.Kind) float64 {
		r := &setting.Resolved{Meshes: setting.Meshes{Mesh: grid, Workers: workers}}
		r.DeviceMessages = direct
		f := &formula{Machine: h.Machine(workers, direct), Resolved: r}
		var l load
		l.sent[kind] = comm.Traffic{Bytes: 8e9}
		return f.moves(&l, kind)
	}
	node := mesh.Mesh{Stages: 1, Partitions: 8, Slices: 1}
	two := mesh.Mesh{Stages: 1, Partitions: 4, Slices: 4}
	stages := mesh.Mesh{Stages: 2, Partitions: 8, Slices: 1}
	const host = 8./50 + 8./50
	for name, pair := range map[string][2]float64{
		"in a node":          {moves(8, node, false, comm.Halo), host},
		"in a node, direct":  {moves(8, node, true, comm.Halo), 8. / 360},
		"slices of one node": {moves(16, two, true, comm.ToSlices), 8. / 360},
		// of the three other partitions one is in the node
		"halo":         {moves(16, two, false, comm.Halo), host + 2./3*8/40},
		"halo, direct": {moves(16, two, true, comm.HaloGradient), 1./3*8/360 + 2./3*8/40},
		// of the 15 other workers 7 are in the node
		"gradients": {moves(16, two, true, comm.Gradient), 7./15*8/360 + 8./15*8/40},
		"all":       {moves(16, two, true, comm.Statistics), 7./15*8/360 + 8./15*8/40},
		"stages":    {moves(16, stages, true, comm.Stage), 8. / 40},
	} {
		assert.Near(t, pair[1], pair[0], 1e-12, name)
	}
	turns := mesh.Mesh{Stages: 1, Partitions: 64, Slices: 1} // four of each of 16 workers
	assert.Near(t, 7./15*8/360+8./15*8/40, moves(16, turns, true, comm.Halo), 1e-12, "turns")
}

// TestHostOfMachine: what rests in the host's memory of more than a machine has is refused.
func TestHostOfMachine(t *testing.T) {
	p := planner(nil)
	o := &p.Options
	o.Device, o.Model, o.Layers, o.Hidden, o.Chunks = setting.AllCards, "sage", 2, 64, 0
	o.Partitions, o.Offload, o.MemoryLimit = 4, setting.RAM, 150e6
	p.Counts, p.Machine = random(200_000, 5), Machine{Sharers: 1, Card: Published("h100")}
	meshes, _, err := p.Meshes(t.Context(), 1)
	require.NoError(t, err)
	assert.Len(t, meshes, 1)
	rests := float64(meshes[0].Plan.HostBytes(0))
	p.Machine.HostMemory = rests
	meshes, _, err = p.Meshes(t.Context(), 1)
	require.NoError(t, err)
	assert.Len(t, meshes, 1)
	p.Machine.HostMemory = rests - 1
	meshes, refused, err := p.Meshes(t.Context(), 1)
	require.NoError(t, err)
	assert.Len(t, meshes, 0)
	assert.Contains(t, refused[0].Reason.Error(), "would rest in the host's memory of a machine, which has ")
}
