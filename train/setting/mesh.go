package setting

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weft/internal/refusal"
	"weft/internal/suggest"
	"weft/parallel/mesh"
)

// Auto is the value of Parallel for which weft train chooses a mesh. Options with it do not resolve.
const Auto = "auto"

// Meshes are the meshes of all groups, and who holds their places. A place has a rank among all.
type Meshes struct {
	Mesh mesh.Mesh
	// SampleGroups is how many meshes hold the graph. Each takes samples of its own.
	SampleGroups int
	// Workers is the number of workers: one for each place of the meshes, or fewer if workers hold several
	// partitions.
	Workers int
}

// TakesTurns reports whether workers hold several partitions, which take turns.
func (m *Meshes) TakesTurns() bool { return m.Workers < m.Ranks() }

// Ranks is the number of places.
func (m *Meshes) Ranks() int { return m.Mesh.Workers() * m.SampleGroups }

// PartitionOf is the partition of a rank.
func (m *Meshes) PartitionOf(rank int) int {
	return m.Mesh.Coords(rank % m.Mesh.Workers()).Partition
}

// Holders returns the worker that holds each place, by the place's rank. A worker holds the same slice of
// consecutive partitions. All workers hold about equally many.
func (m *Meshes) Holders() []int {
	holders := make([]int, m.Ranks())
	grid, n := m.Mesh, m.Mesh.Workers()
	grid.Partitions = m.Workers / (m.SampleGroups * grid.Stages * grid.Slices)
	for rank := range holders {
		at := m.Mesh.Coords(rank % n)
		at.Partition = at.Partition * grid.Partitions / m.Mesh.Partitions
		holders[rank] = rank/n*grid.Workers() + grid.Rank(at)
	}
	return holders
}

// First returns the lowest rank that a worker holds.
func (m *Meshes) First(worker int) int { return slices.Index(m.Holders(), worker) }

// axisNames are the names of the axes in Parallel.
var axisNames = []string{"graph", "tensor", "pipeline"}

// samplesAxis is the axis of groups of workers that hold the same graph, and take different samples.
const samplesAxis = "samples"

// along points to the number of workers along the axis that has that name in Parallel; nil for another name.
func along(m *mesh.Mesh, name string) *int {
	switch name {
	case "graph":
		return &m.Partitions
	case "tensor":
		return &m.Slices
	case "pipeline":
		return &m.Stages
	}
	return nil
}

// Axes writes a mesh as Parallel has it.
func Axes(m mesh.Mesh) string {
	var parts []string
	for _, name := range axisNames {
		if n := *along(&m, name); n > 1 {
			parts = append(parts, fmt.Sprintf("%s=%d", name, n))
		}
	}
	return cmp.Or(strings.Join(parts, ","), "graph=1")
}

// mesh is the mesh that Parallel asks for, and groups the number of such meshes that take samples of their
// own. Every axis may have one worker, which divides nothing.
func (o *Options) mesh() (m mesh.Mesh, groups int, err error) {
	m, groups = mesh.One, 1
	if o.Parallel == "" {
		return m, groups, nil
	}
	refuse := func(format string, args ...any) (mesh.Mesh, int, error) {
		return mesh.One, 1, refusal.Errorf("--parallel %s: "+format, append([]any{o.Parallel}, args...)...)
	}
	axis := func(name string) *int {
		if name == samplesAxis {
			return &groups
		}
		return along(&m, name)
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(o.Parallel, ",") {
		name, count, found := strings.Cut(part, "=")
		n, err := strconv.Atoi(count)
		switch size := axis(name); {
		case o.Parallel == Auto:
			return refuse("weft train chooses a mesh for a new run alone; give one, as in graph=4")
		case !found:
			return refuse("a mesh is written AXIS=N[,AXIS=N…], as in graph=4")
		case size == nil:
			return refuse("the mesh has no axis %q; %s", name, suggest.OneOf(name, axisNames))
		case seen[name]:
			return refuse("the axis %s stands twice in the mesh", name)
		case err != nil || n < 1:
			return refuse("a mesh axis has a whole number of workers, at least 1, not %q", count)
		case n > mesh.MaxWorkers:
			return refuse("a mesh axis has at most %d workers", mesh.MaxWorkers)
		case name == samplesAxis && n > 1 && !o.loop:
			return refuse("samples on several groups of workers are of a loop of your own, which weft.compile is for: " +
				"leave samples out")
		default:
			*size = n
		}
		seen[name] = true
	}
	if n := m.Workers() * groups; n > mesh.MaxWorkers {
		return refuse("a mesh has at most %d workers, and this one %d", mesh.MaxWorkers, n)
	}
	return m, groups, nil
}
