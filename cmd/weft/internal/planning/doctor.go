// Package planning predicts the cost of training on this machine: the commands plan and doctor.
package planning

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/graph/datasets"
	"weft/kernel"
	"weft/kernel/machine"
)

// NewDoctor makes the command doctor.
func NewDoctor() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "say what this machine has and what would help",
		Long: `doctor prints a line for each thing that it finds on this machine, with advice where something could be better.

It measures how fast the machine reads memory and multiplies dense matrices, with one thread and with as many as a run would use.
That takes a few seconds, in which the machine should do nothing else. weft bench measures the kernels themselves.`,
		Example: "  weft doctor\n  weft doctor --json > machine.json",
		Args:    cli.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ui.EndWithReader()
			out := cmd.OutOrStdout()
			if asJSON {
				return ui.PrintJSON(out, examine("", machine.Beyond, func(*line) {}))
			}
			examine("", machine.Beyond, func(l *line) { l.Print(out) })
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// finding is what a check found: a JSON object, what is said of it, and advice. A field that is absent is
// unknown or does not apply.
type finding interface {
	describe() (found, advice string)
}

// check is a line of doctor: its key for programs, its name for the eye, and how it is measured.
type check struct {
	key, what string
	measure   func(*system) finding
}

// checks are the lines of doctor, in their order.
var checks = []check{
	{"weft", "weft", func(*system) finding { return buildFinding{cli.Version, runtime.Version()} }},
	{"cores", "cores", func(s *system) finding { return s.cores }},
	{"cpu_quota", "CPU quota", func(s *system) finding { return s.quota }},
	{"load", "load", func(s *system) finding { return s.load }},
	{"numa", "NUMA nodes", func(s *system) finding {
		return numaFinding{listLength(systemFile(s.root, nodesFile))}
	}},
	{"simd", "SIMD", func(*system) finding {
		return simdFinding{kernel.SIMD(), os.Getenv("WEFT_SIMD") != ""}
	}},
	{"bfloat16_products", "bf16 products", func(*system) finding {
		return productsFinding{kernel.BFloat16Products(), os.Getenv("WEFT_BF16") != ""}
	}},
	{"memory", "memory", func(s *system) finding { return s.memory }},
	{"huge_pages", "huge pages", func(s *system) finding {
		return hugePagesFinding{bracketed(systemFile(s.root, hugePagesFile))}
	}},
	{"memory_streamed", "memory, streamed", func(s *system) finding { return s.rates()[0] }},
	{"memory_gathered", "memory, gathered", func(s *system) finding { return s.rates()[1] }},
	{"dense_arithmetic", "dense arithmetic", func(s *system) finding { return s.rates()[2] }},
	{"gpu", "GPU", func(*system) finding { return findCards() }},
	{"dense_products", "dense products", func(*system) finding { return findDenseLibrary() }},
	{"mpi", "MPI", func(*system) finding { return findMPI() }},
	{"slurm", "Slurm", func(*system) finding { return findSlurm() }},
	{"package_index", "package index", func(*system) finding {
		return indexFinding{datasets.Named("debian").Missing()}
	}},
	{"published_datasets", "published datasets", func(*system) finding { return findDatasets() }},
}

// line is a check with what it found.
type line struct {
	check
	finding
	found, advice string
}

// diagnosis is what doctor found: for programs an object with an object for each line.
type diagnosis []*line

// examine examines the machine, and calls show with each line as soon as it is known. root is put before the
// paths of files. Rates are measured over so many bytes of memory.
func examine(root string, bytes int, show func(*line)) (d diagnosis) {
	s := newSystem(root, bytes)
	for _, c := range checks {
		l := &line{check: c, finding: c.measure(s)}
		l.found, l.advice = l.describe()
		d = append(d, l)
		show(l)
	}
	return d
}

// MarshalJSON writes the objects of the lines, with the advice as the last field of each but the first.
func (d diagnosis) MarshalJSON() ([]byte, error) {
	var lines []string
	for k, l := range d {
		fields, err := json.Marshal(l.finding)
		if err != nil {
			return nil, err
		}
		advice, err := json.Marshal(l.advice)
		if err != nil {
			return nil, err
		}
		text := strings.TrimSuffix(string(fields), "}")
		text += ui.When(k > 0, ui.When(text != "{", ",")+`"advice":`+string(advice))
		lines = append(lines, fmt.Sprintf(`"%s":%s}`, l.key, text))
	}
	return []byte("{" + strings.Join(lines, ",") + "}"), nil
}

// Columns of the table. They are fixed, because a line is printed before the next one is known.
const (
	whatWidth   = 18
	foundWidth  = 48
	adviceWidth = 60
)

// Print prints a line of the table. If the finding is wider than its column, the advice is below it.
func (l *line) Print(out io.Writer) {
	text := fmt.Sprintf("%-*s  %s", whatWidth, l.what, l.found)
	if l.advice != "" {
		gap := foundWidth - utf8.RuneCountInString(l.found)
		if gap < 0 {
			text, gap = text+"\n", whatWidth+2+foundWidth
		}
		text += strings.Repeat(" ", gap+2) + l.advice
	}
	fmt.Fprintln(out, text)
}
