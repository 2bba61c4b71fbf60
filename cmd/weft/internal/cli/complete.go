package cli

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/configs"
	"weft/graph"
	"weft/graph/datasets"
	"weft/train/rundir"
)

// FlagChoices is the annotation with the words that a flag accepts.
const FlagChoices = "choices"

// CompleteFlags lets a shell complete the values of all flags: the accepted words, or files or folders if the
// help text names the value so. Arguments are completed only if the command says how.
func CompleteFlags(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if err := cmd.RegisterFlagCompletionFunc(f.Name, completeValue(f)); err != nil {
			panic(err) // the flag is the command's
		}
	})
	for _, c := range cmd.Commands() {
		CompleteFlags(c)
	}
}

func completeValue(f *pflag.Flag) cobra.CompletionFunc {
	if words := f.Annotations[FlagChoices]; len(words) > 0 {
		return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
	}
	if f.Name == "config" {
		return completeConfig
	}
	switch what, _ := pflag.UnquoteUsage(f); what {
	case "file":
		return CompleteFiles
	case "directory":
		return CompleteFolders
	}
	return cobra.NoFileCompletions
}

// CompleteFiles leaves the names of files to the shell.
func CompleteFiles(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// CompleteFolders leaves the names of folders to the shell.
func CompleteFolders(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// CompleteGraph completes the names of datasets, the paths of stores, and the paths of files and folders,
// which may be imported or lead to a store.
func CompleteGraph(_ *cobra.Command, _ []string,
	begun string,
) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	for _, d := range datasets.All() {
		if strings.HasPrefix(d.Name, begun) {
			names = append(names, cobra.CompletionWithDesc(d.Name, d.About))
		}
	}
	return offer(append(names, beginningWith(begun, IsStore)...), begun,
		func(path string) bool { return !IsStore(path) }, cobra.ShellCompDirectiveDefault)
}

// completeConfig completes the names of configurations, and files and folders.
func completeConfig(_ *cobra.Command, _ []string,
	begun string,
) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	for _, name := range configs.Names() {
		if strings.HasPrefix(name, begun) {
			names = append(names, name)
		}
	}
	return offer(names, begun, func(string) bool { return true }, cobra.ShellCompDirectiveDefault)
}

// CompleteRun completes the paths of runs, and of folders, which may hold runs.
func CompleteRun(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return offer(beginningWith(begun, rundir.Is), begun, func(path string) bool {
		return IsFolder(path) && !rundir.Is(path) && !IsStore(path)
	}, cobra.ShellCompDirectiveFilterDirs)
}

// offer adds to the names the paths that begin with begun and are wanted. If there are none, the shell
// completes by itself, as otherwise says.
func offer(names []cobra.Completion, begun string, wanted func(path string) bool,
	otherwise cobra.ShellCompDirective,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	_, name := filepath.Split(begun)
	hidden := strings.HasPrefix(name, ".")
	found, _ := filepath.Glob(begun + "*") // with a bracket in begun there are none
	for _, path := range found {
		switch {
		case !wanted(path), strings.HasPrefix(filepath.Base(path), ".") && !hidden:
		case IsFolder(path):
			names = append(names, path+"/")
		default:
			names = append(names, path)
		}
	}
	switch {
	case names == nil:
		return nil, otherwise
	case len(names) == 1 && strings.HasSuffix(names[0], "/"): // the rest of the path follows
		return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// IsFolder reports whether a path, or what a link at it leads to, is a folder.
func IsFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// beginningWith are the folders of a kind whose paths begin with begun, at that place or one level below.
func beginningWith(begun string, is func(path string) bool) (paths []cobra.Completion) {
	for _, pattern := range []string{begun + "*", filepath.Join(begun+"*", "*")} {
		found, _ := filepath.Glob(pattern) // with a bracket in begun there are none
		for _, path := range found {
			if is(path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// CompleteInOrder completes each argument in its own way, and no further arguments.
func CompleteInOrder(each ...cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion,
		cobra.ShellCompDirective,
	) {
		if len(args) >= len(each) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return each[len(args)](cmd, args, begun)
	}
}

// IsStore reports whether a folder is a store.
func IsStore(path string) bool { return graph.IsStore(path) }
