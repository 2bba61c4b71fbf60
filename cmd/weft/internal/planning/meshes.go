package planning

import (
	"cmp"
	"errors"
	"io"
	"math"
	"slices"
	"strings"

	"weft/cmd/weft/internal/ui"
	"weft/internal/refusal"
	"weft/train/plan"
	"weft/train/planner"
)

// Predictions for meshes in words, and why other meshes are not possible.

// NoMesh is the refusal if no mesh is possible. If a memory limit is why, it tells the mesh that needs least.
func NoMesh(workers int, refused []planner.Refused) error {
	least := int64(math.MaxInt64)
	lines := reasons(refused)
	for i := range refused {
		var exceeds plan.Exceeds
		if errors.As(refused[i].Reason, &exceeds) && exceeds.Need < least {
			least = exceeds.Need
			lines = []string{"with least memory, " + reasons(refused[i : i+1])[0]}
		}
	}
	return refusal.Errorf("no mesh of %s is possible: %s", ui.Counted(workers, "worker", "workers"),
		strings.Join(lines, "; "))
}

// reasons say why meshes are not possible. A reason that several meshes share stands once, after all of them.
func reasons(refused []planner.Refused) (lines []string) {
	meshes := map[string][]string{} // meshes by reason
	var all []string
	for _, r := range refused {
		mesh, reason := reason(&r)
		if meshes[reason] == nil {
			all = append(all, reason)
		}
		meshes[reason] = append(meshes[reason], mesh)
	}
	for _, reason := range all {
		lines = append(lines, refusal.List(meshes[reason], 3)+": "+reason)
	}
	return lines
}

// reason says why a mesh is not possible.
func reason(r *planner.Refused) (mesh, why string) {
	mesh = "--parallel " + r.Parallel
	return mesh, ui.Printable(strings.TrimPrefix(r.Reason.Error(), mesh+": "))
}

// plannedMesh is a mesh as plan prints it in JSON.
type plannedMesh struct {
	Parallel        string  `json:"parallel"`
	EpochSeconds    float64 `json:"epoch_seconds"`
	PeakTensorBytes int64   `json:"peak_tensor_bytes"` // of the worker that needs most
	SentBytes       int64   `json:"sent_bytes"`        // by all workers in an epoch
	LimitedBy       string  `json:"limited_by"`
	// Exact says that training on the mesh gives the results of one worker, up to rounding.
	Exact        bool   `json:"exact"`
	Extrapolated bool   `json:"extrapolated"`      // fewer workers were planned
	Balance      string `json:"balance,omitempty"` // of partitions
	ByCounts     bool   `json:"by_counts"`         // from the graph's counts: a run's bytes may differ
	*onCard
}

// onCard is what a mesh takes on cards.
type onCard struct {
	CardBytes   int64   `json:"card_bytes"`      // of the worker that needs most
	HostBytes   int64   `json:"host_bytes"`      // of what rests there and of messages, for all workers
	CopySeconds float64 `json:"copy_seconds"`    // of copies that no kernels hide
	WasRead     int64   `json:"to_device_bytes"` // by all workers in an epoch
	WasWritten  int64   `json:"to_host_bytes"`
}

// planForPrograms is a plan as --json prints it.
func planForPrograms(meshes []planner.Mesh, on *planner.Machine, extrapolated bool, layers *bounds) any {
	var list []plannedMesh
	for _, m := range meshes {
		planned := plannedMesh{
			m.Parallel, m.Times.Epoch, m.PeakTensorBytes(), m.SentBytes(),
			m.LimitedBy(), m.Exact, extrapolated, m.Balance, m.ByCounts, nil,
		}
		if on.Card != nil {
			moved := m.Plan.Disk()
			planned.onCard = &onCard{
				m.CardBytes(), m.Plan.HostBytes(0), m.Times.Copies, moved.Read, moved.Written,
			}
		}
		list = append(list, planned)
	}
	o := meshes[0].Settings
	return struct {
		Model      string            `json:"model"`
		Layers     int               `json:"layers"`
		Hidden     int               `json:"hidden"`
		Parameters int               `json:"parameters"`
		Meshes     []plannedMesh     `json:"meshes"`
		Links      planner.Links     `json:"links,omitzero"`
		Far        planner.Links     `json:"links_between_machines,omitzero"`
		Card       *planner.CardSpec `json:"card,omitempty"`
		Bounds     *bounds           `json:"bounds,omitempty"`
	}{
		o.Model, o.Depth(), o.Hidden, meshes[0].Plan.Parameters(o.Mesh), list, on.Links, on.Far,
		on.Card, layers,
	}
}

// Approximations says in which way what workers send makes training approximate on some of the meshes.
func Approximations(meshes []planner.Mesh) (lines []string) {
	for _, m := range meshes {
		for _, line := range approximate(m.Settings) {
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

func printMeshes(out io.Writer, meshes []planner.Mesh, refused []planner.Refused) {
	rows := [][]string{{
		"mesh", "epoch", "compute", "link", "copies", "others", "memory", "host", "sent",
		"limited by", "balance", "by",
	}}
	var approximate []string
	for _, m := range meshes {
		t := &m.Times
		if !m.Exact {
			approximate = append(approximate, m.Parallel)
		}
		by := "graph"
		if m.ByCounts {
			by = "counts"
		}
		memory := m.PeakTensorBytes()
		if m.Plan.Cards != nil {
			memory = m.CardBytes()
		}
		rows = append(rows, []string{
			m.Parallel, ui.Duration(ui.Seconds(t.Epoch)), ui.Duration(ui.Seconds(t.Compute)),
			ui.Duration(ui.Seconds(t.Link)),
			ui.Duration(ui.Seconds(t.Copies)), ui.Duration(ui.Seconds(t.Imbalance + t.Bubble + t.Wait)),
			ui.Megabytes(memory), ui.Megabytes(m.Plan.HostBytes(0)), ui.Megabytes(m.SentBytes()),
			m.LimitedBy(),
			cmp.Or(m.Balance, "–"), by,
		})
	}
	if !slices.ContainsFunc(meshes, func(m planner.Mesh) bool { return m.Plan.Rests }) {
		for _, name := range []string{"copies", "host"} {
			at := slices.Index(rows[0], name)
			for k := range rows {
				rows[k] = slices.Delete(rows[k], at, at+1)
			}
		}
	}
	ui.PrintNumbers(out, rows, "by", "balance", "others", "link")
	if len(approximate) > 0 {
		ui.Note(out, "training is approximate on "+strings.Join(approximate, ", "))
	}
	for _, line := range reasons(refused) {
		ui.Note(out, "left out: "+line)
	}
}
