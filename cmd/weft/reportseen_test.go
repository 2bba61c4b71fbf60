package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/cmd/weft/internal/ui"
	"weft/cmd/weft/internal/ui/uitest"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/train/rundir"
)

// runsToSee trains small runs of each kind, and returns their folders by what they show.
func runsToSee(t *testing.T, dir string) map[string][]string {
	t.Helper()
	people, pays := "id,city,age,risk,late\n", "payer,payee,amount,paid,fraud\n"
	items := "id,price\n"
	for k := range 90 {
		risk := float64(k*37%90) / 90
		people += fmt.Sprintf("c%d,%s,%d,%.3f,%s\n", k, []string{"Rome", "Oslo"}[k%2], 20+k%50, risk,
			[]string{"no", "yes"}[int(risk+.3)])
		items += fmt.Sprintf("i%d,%d\n", k, k%17)
		for j := range 6 {
			pays += fmt.Sprintf("c%d,c%d,%d,2024-0%d-01,%s\n", k, (k*7+11*j)%90, j*k%50, 1+(k+j)%5,
				[]string{"no", "yes"}[(k+j)%3/2])
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{
		"people.csv": people, "pay.csv": pays, "items.csv": items,
		"buys.csv": strings.ReplaceAll(pays, ",c", ",i"),
	} {
		require.NoError(t, os.WriteFile(at(name), []byte(text), 0o600))
	}
	ends := []string{"--source", "payer", "--target", "payee"}
	table := append([]string{at("pay.csv")}, ends...)
	imported := func(store string, more ...string) {
		runWeft(t, append(append([]string{"import", "edges", table[0], at(store)}, ends...), more...)...)
	}
	split := []string{"--split", "random:60/20/20"}
	imported(
		"late",
		append(split, "--vertices-from", at("people.csv"), "--label", "late", "--leave-out", "risk")...)
	imported(
		"risk",
		append(split, "--vertices-from", at("people.csv"), "--label", "risk", "--leave-out", "late")...)
	imported(
		"fraud",
		"--vertices-from",
		at("people.csv"),
		"--edge-label",
		"fraud",
		"--split",
		"time:paid=2024-03-01,2024-04-01",
	)
	runWeft(
		t,
		append(
			append([]string{"import", "edges", at("buys.csv"), at("buys")}, append(ends, split...)...),
			"--vertices-from",
			"payer="+at("people.csv"),
			"--vertices-from",
			"payee="+at("items.csv"),
			"--label",
			"late",
			"--reverse-relations",
		)...)
	train := func(store, out string, more ...string) {
		runWeft(
			t,
			append(
				[]string{"train", at(store), "--epochs", "12", "--hidden", "8", "--quiet", "--out", at(out)},
				more...)...)
	}
	train("late", "one", "--parallel", "graph=2")
	for k := range 8 {
		train(
			"late",
			fmt.Sprintf("eight/%s-%d", []string{"sage", "gcn", "gat", "gin"}[k%4], 1+k/4),
			"--model",
			[]string{"sage", "gcn", "gat", "gin"}[k%4],
			"--layers",
			fmt.Sprint(1+k/4),
		)
	}
	train("late", "seeds", "--seeds", "3")
	train("risk", "regression")
	train("fraud", "edges", "--edge-label", "fraud", "--calibrate", "isotonic")
	train("buys", "types", "--model", "rgcn")
	for k := range 40 {
		train("late", fmt.Sprintf("sweep/run-%04d", k), "--lr", fmt.Sprint(.001*float64(1+k/8)), "--dropout",
			fmt.Sprint(.1*float64(k%4)), "--layers", fmt.Sprint(1+k/4%2))
	}
	sets := map[string][]string{}
	for _, name := range []string{"one", "eight", "seeds", "regression", "edges", "types", "sweep"} {
		runs, err := rundir.List(at(name), func(err error) { t.Error(err) })
		require.NoError(t, err)
		for _, r := range runs {
			sets[name] = append(sets[name], r.RunDir)
		}
	}
	assert.Len(t, sets["sweep"], 40)
	return sets
}

// TestReportAsSeen: at two widths, light and dark, nobody sees a fault of a page, and the table of runs has
// the figures of their JSON.
func TestReportAsSeen(t *testing.T) {
	dir := t.TempDir()
	b := uitest.NewBrowser(t)
	for name, runs := range runsToSee(t, dir) {
		page := filepath.Join(dir, name+".html")
		runWeft(t, "report", filepath.Join(dir, name), "--out", page)
		for _, width := range []int{1280, 390} {
			for _, scheme := range []string{"light", "dark"} {
				b.Open("file://" + page)
				assert.Empty(t, b.Faults(width, scheme), "%s at %d px, %s", name, width, scheme)
			}
		}
		var rows map[string][]string
		b.Evaluate(`Object.fromEntries([...document.querySelectorAll("#runs tr[data-run]")].map(row => `+
			`[row.dataset.run, [...row.cells].map(c => c.innerText)]))`, &rows)
		assert.Len(t, rows, len(runs))
		for _, folder := range runs {
			run, _, _, err := rundir.Read(folder)
			require.NoError(t, err)
			s, row := &run.Summary, rows[filepath.Base(folder)]
			require.Equal(t, true, len(row) > 8, "%s: the row of %s: %q", name, folder, row)
			assert.Equal(t, []string{
				ui.Measured(s.Metric, s.Test), ui.Measured(s.Metric, s.Val), ui.Measured(s.Metric, s.Train),
			}, row[1:4], "%s", folder)
			last := len(row) - 5
			assert.Equal(t, []string{
				fmt.Sprintf("%d of %d", s.BestEpoch, s.EpochsRun),
				ui.Duration(ui.Seconds(s.EpochSecondsMedian)),
				ui.Duration(run.Finished.Sub(run.Started)),
				ui.Megabytes(max(0, s.PeakTensorBytes[0])),
				ui.Megabytes(s.PeakRSSBytes),
			}, row[last:], "%s", folder)
		}
		if name == "edges" { // shares have one scale, and each point of calibration its count
			var shares []struct {
				Title  string
				Scales [4]float64
				Counts int
			}
			b.Evaluate(`curves.map((c, k) => [c, plots[k].scales]).filter(([c]) => c.x).map(([c, s]) => ({`+
				`Title: c.title, Scales: [s.x.min, s.x.max, s.y.min, s.y.max], `+
				`Counts: (c.series[0].counts || []).reduce((a, b) => a + b, 0)}))`, &shares)
			assert.Len(t, shares, 4)
			run, _, _, err := rundir.Read(runs[0])
			require.NoError(t, err)
			for k, share := range shares {
				assert.Equal(t, [4]float64{0, 100, 0, 100}, share.Scales, "%s", share.Title)
				if k >= 2 { // calibration, after and before
					assert.Equal(t, testEdges(t, &run), share.Counts, "%s", share.Title)
				}
			}
		}
		if name == "eight" {
			var bottom int
			b.Faults(1280, "light")
			b.Evaluate("Math.round(document.getElementById('runs').getBoundingClientRect().bottom)", &bottom)
			if bottom > 800 {
				t.Errorf("eight runs reach to %d px of a screen with 800", bottom)
			}
		}
	}
}

// testEdges is how many edges test a run whose labels of edges are divided by their store.
func testEdges(t *testing.T, run *rundir.Run) int {
	t.Helper()
	g, err := graph.Open(run.Store)
	require.NoError(t, err)
	defer g.Close()
	return len(g.Relations[0].Splits[0].Test)
}
