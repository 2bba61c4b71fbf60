package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/ui"
	"weft/internal/cores"
	"weft/internal/refusal"
	"weft/internal/suggest"
	"weft/train"
	"weft/train/bench"
	"weft/train/setting"
)

func newBench() *cobra.Command {
	o, settings, only, asJSON := bench.Options{}, cli.SettingFlags{}, "", false
	cmd := &cobra.Command{
		Use:   "bench [kernels|epoch] | --program FILE [GRAPH]",
		Short: "measure how close kernels and epochs come to this machine's limits",
		Long: `bench trains models of three layers for a few epochs without dropout, and measures each epoch, and each kernel call in it, against
this machine. A fraction of 1 is as fast as the bound.

  kernels  five models in float32 on a uniform graph of 200,000 vertices of degree 15
  epoch    GraphSAGE, GAT and GCN in float32 and bfloat16, on that graph and on one of a million vertices with skewed degrees (rmat)

Without a name it does both. Of each model it prints the fastest epoch, the part of it that is in kernels, and the kernel calls that
take a noticeable part of it, with the shortest time of a call.

A bound is bytes that are read ÷ rate of reads + bytes that are written ÷ rate of writes + rows that are gathered · time of such a row
+ operations of dense products ÷ the rate of the best product. These rates are measured before, with as many threads. Rows are taken
to come from memory: those of few columns may be found in a cache, and are then faster. What attention and norms compute is not in it.
In the bound of an epoch only those bytes count that products and sums along edges need to read and to write.

With --program it trains a program on the graph, or on that uniform graph, and prints for each layer its time in the fastest of three
runs beside its bound, which plan --explain prints too.

With --device cuda all bytes count by the rate of copies on the card, each kernel call is waited for and an epoch is not, and kernels
are those of both precisions and graphs.

It takes some minutes and up to 10 GB of memory. Run nothing else on the machine meanwhile.`,
		Example: `  weft bench
  weft bench kernels --only '^gat' --threads 1
  weft bench kernels --json > kernels.json
  weft bench epoch --only 'sage.*bf16 uniform'
  weft bench --device cuda --only 'sage|gcn|gat '
  weft bench --program runs/mine/program.json cora`,
		ValidArgs: bench.Parts,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && !cmd.Flags().Changed("program") && !slices.Contains(bench.Parts, args[0]) {
				return refusal.Errorf("unknown part of bench %q; %s", args[0],
					suggest.OneOf(args[0], bench.Parts))
			}
			return cli.Arguments(0, 1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s := train.Defaults()
			if err := settings.Override(&s); err != nil {
				return err
			}
			if s.Program.Path != "" {
				return runProgram(cmd, o, &s, strings.Join(args, ""), asJSON)
			}
			if s.Precision != train.Defaults().Precision {
				return refusal.Errorf("--precision %s: is for --program; models that bench knows are measured in both",
					s.Precision)
			}
			o.Part = strings.Join(args, "")
			settings.SayDevice(cmd.ErrOrStderr())
			o.Device = s.Device
			return runBench(cmd, o, only, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.Threads, "threads", 0, "threads to measure with, 0: all cores")
	settings.AddThose(flags, func(option setting.Setting) bool {
		return option.Name == "device" || option.Name == "program" || option.Name == "precision"
	})
	flags.StringVar(&only, "only", "", "measure only the models whose \"model precision graph\" matches "+
		"this `regexp`")
	flags.BoolVar(&o.Quick, "quick", false, "small graphs and few epochs: seconds, for a first look")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// setThreads sets the threads, and the processor's name.
func setThreads(o *bench.Options) error {
	if o.Threads < 0 || o.Threads > 1<<12 {
		return refusal.Errorf("--threads %d: give between 1 and %d, or 0 for all cores", o.Threads, 1<<12)
	}
	o.Threads, o.CPU = cmp.Or(o.Threads, cores.Count()), cli.ProcEntry("/proc/cpuinfo", "model name")
	return nil
}

// runProgram measures the program of a file on a graph, and prints its layers. graph is "" for a uniform
// graph.
func runProgram(cmd *cobra.Command, o bench.Options, s *train.Options, graph string, asJSON bool) error {
	flags := cmd.Flags()
	for _, name := range []string{"only", "device"} {
		if flags.Changed(name) {
			return refusal.Errorf("--%s: is for models that bench knows by name; leave it out, or --program", name)
		}
	}
	err := cmp.Or(setThreads(&o), s.ReadFiles())
	if err != nil {
		return err
	}
	workload := bench.MeasuredProgram{Options: *s, Name: graph}
	if graph != "" {
		g, _, err := data.OpenDataset(cmd.Context(), data.Source{Name: graph}, cmd.ErrOrStderr(), nil)
		if err != nil {
			return err
		}
		defer g.Close()
		workload.Graph = g
	}
	ui.EndWithReader()
	ctx, stop := cli.UntilSignal(cmd.Context(), func(os.Signal) {}, nil)
	defer stop()
	out := cmd.OutOrStdout()
	show := out
	if asJSON {
		show = io.Discard
	}
	p, err := bench.MeasureProgram(ctx, o, workload, func(m bench.Machine) { showRates(show, m) })
	if err != nil {
		return err
	}
	if asJSON {
		return ui.PrintJSON(out, p)
	}
	showProgram(out, p)
	return nil
}

func showProgram(show io.Writer, p bench.Program) {
	took := func(seconds float64) string { return ui.Duration(ui.Seconds(seconds)) }
	fmt.Fprintf(show, "\n%s in %s on %s\n", p.Program, p.Precision, p.Graph)
	fmt.Fprintf(show, "  a pass %s: its layers %.2f times their bound of %s, and the loss and the step %s\n",
		took(p.PassSeconds), p.TimesBound, took(p.BoundSeconds), took(p.RestSeconds))
	fmt.Fprintf(show, "  %-28s %10s %10s %10s %6s %10s %10s %10s\n", "layer", "forward", "backward", "bound",
		"times", "products", "gathered", "streamed")
	for _, l := range p.Layers {
		b := l.Forward.Plus(l.Backward)
		fmt.Fprintf(show, "  %-28s %10s %10s %10s %6.2f %10s %10s %10s  %s\n",
			fmt.Sprintf("%d %s", l.Layer, l.Name), took(l.ForwardSeconds), took(l.BackwardSeconds),
			took(b.Seconds()), l.TimesBound, took(b.Products), took(b.Gathered), took(b.Streamed), l.Bound)
	}
}

// runBench measures, and prints each model as soon as it is measured. A signal ends it.
func runBench(cmd *cobra.Command, o bench.Options, only string, asJSON bool) (err error) {
	if err := setThreads(&o); err != nil {
		return err
	}
	if only != "" {
		if o.Only, err = regexp.Compile(only); err != nil {
			return refusal.Errorf("--only %s: %w", only, err)
		}
	}
	ui.EndWithReader()
	ctx, stop := cli.UntilSignal(cmd.Context(), func(s os.Signal) {
		fmt.Fprintf(cmd.ErrOrStderr(), "weft: %s: stopping after the epoch under way; interrupt again to stop "+
			"at once\n", s)
	}, nil)
	defer stop()
	out := cmd.OutOrStdout()
	show := out
	if asJSON {
		show = io.Discard
	}
	report, err := bench.Measure(ctx, o, func(m bench.Machine) { showRates(show, m) },
		func(m bench.Model) { showModel(show, m) })
	if err == nil && asJSON {
		err = ui.PrintJSON(out, report)
	}
	return err
}

func showRates(show io.Writer, m bench.Machine) {
	if m.Card != "" {
		fmt.Fprintf(show, "%s: copies read and write %.1f GB/s, dense products %.0f GFLOP/s, of bfloat16 %.0f GFLOP/s\n",
			m.Card, m.Read/1e9, m.Flops/1e9, m.BFloat16Flops/1e9)
		return
	}
	fmt.Fprintf(show, "%s, %d cores, %d threads, kernels for %s\n", cmp.Or(m.CPU, runtime.GOARCH), m.Cores,
		m.Threads, m.SIMD)
	fmt.Fprintf(show, "read %.1f GB/s, write %.1f GB/s, gather %.1f GB/s, single cache lines %.1f GB/s\n",
		m.Read/1e9, m.Write/1e9, m.Gather/1e9, m.Lines/1e9)
	fmt.Fprintf(show, "dense products %.0f GFLOP/s, of bfloat16 by %s %.0f GFLOP/s\n", m.Flops/1e9,
		m.BFloat16Products, m.BFloat16Flops/1e9)
}

func showModel(show io.Writer, m bench.Model) {
	fmt.Fprintf(show, "\n%s in %s on %s\n", m.Model, m.Precision, m.Graph)
	fmt.Fprintf(show, "  epoch %s, its kernels %s  %s %3.0f %%\n", ui.Duration(ui.Seconds(m.EpochSeconds)),
		ui.Duration(ui.Seconds(m.KernelSeconds)), bar(m.Fraction, 20), 100*m.Fraction)
	fmt.Fprintf(show, "  %.2f times its bound of %s: products %s, gathered rows %s, streamed rows %s\n",
		m.TimesBound, ui.Duration(ui.Seconds(m.BoundSeconds)), ui.Duration(ui.Seconds(m.Bound.Products)),
		ui.Duration(ui.Seconds(m.Bound.Gathered)), ui.Duration(ui.Seconds(m.Bound.Streamed)))
	fmt.Fprintf(show, "  %-46s %15s  %5s %8s %6s  of the bound\n", "kernel", "calls", "epoch", "GFLOP/s", "GB/s")
	for _, k := range m.Kernels {
		operations := "–"
		if k.GFLOPS > 0 {
			operations = fmt.Sprintf("%.1f", k.GFLOPS)
		}
		fmt.Fprintf(show, "  %-46s %3d × %9s %4.0f %% %8s %6.1f  %s %3.0f %% %s\n", k.Name+" "+k.Shape, k.Times,
			ui.Duration(ui.Seconds(k.Seconds)), 100*k.Share, operations, k.GBytesPerSec, bar(k.Fraction, 20),
			100*k.Fraction, k.Bound)
	}
}

// bar draws a fraction between 0 and 1 with a number of cells.
func bar(fraction float64, cells int) string {
	full := min(max(int(fraction*float64(cells)+0.5), 0), cells)
	return strings.Repeat("▇", full) + strings.Repeat("▁", cells-full)
}
