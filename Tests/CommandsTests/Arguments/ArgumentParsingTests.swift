import Commands
import Testing

/// What a command of these tests is given.
private struct Recipe: ParsableCommand {
    enum Heat: String, ExpressibleByArgument, CaseIterable {
        case low, high
    }

    struct Kitchen: ParsableArguments {
        @Option(help: "Where.")
        var place = "home"

        @Flag(name: [.customShort("L")], help: "Leave the light on.")
        var light = false

        func validate() throws {
            guard place != "nowhere" else { throw ValidationError("--place takes a place.") }
        }
    }

    static let configuration = CommandConfiguration(commandName: "recipe", abstract: "Cook.", version: "recipe 1")

    @OptionGroup(title: "Kitchen") var kitchen: Kitchen

    @Option(name: .shortAndLong, help: ArgumentHelp("Degrees.", valueName: "degrees"))
    var temperature = 180

    @Option(name: [.customShort("H"), .long], help: "How hot.")
    var heat: Heat?

    @Option(name: .customLong("for"), help: "How long.", transform: Self.minutes)
    var minutes: Int?

    @Option(name: .short)
    var spice: [String] = []

    @Flag(name: .shortAndLong)
    var verbose = false

    @Argument(help: "The dish.", completion: .file)
    var dish: String

    @Argument(help: "Who eats.")
    var guests: [String] = []

    static func minutes(_ text: String) throws -> Int {
        guard text.hasSuffix("m"), let count = Int(text.dropLast()) else {
            throw ValidationError("--for takes a time such as 10m.")
        }
        return count
    }
}

private struct Book: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "book", subcommands: [Recipe.self], optionsBeforeSubcommand: Recipe.Kitchen.self)
}

/// What is said of words that cannot be read; nil if they can.
private func complaint(_ words: String...) -> String? {
    do {
        _ = try Recipe.parse(words)
        return nil
    } catch {
        return "\(error)"
    }
}

@Suite struct ArgumentParsingTests {
    @Test func `Values are taken by long and short names, joined or not`() throws {
        for words in [
            ["--temperature", "90"], ["--temperature=90"], ["-t", "90"], ["-t90"], ["-t=90"], ["-vt", "90"], ["-vt90"],
        ] {
            #expect(try Recipe.parse(words + ["soup"]).temperature == 90, "\(words)")
        }
    }

    @Test func `What is not given has its default`() throws {
        let recipe = try Recipe.parse(["soup"])
        #expect(recipe.temperature == 180)
        #expect(recipe.heat == nil)
        #expect(recipe.minutes == nil)
        #expect(recipe.spice == [])
        #expect(!recipe.verbose)
        #expect(recipe.dish == "soup")
        #expect(recipe.guests == [])
        #expect(recipe.kitchen.place == "home")
    }

    @Test func `Options, flags and positional arguments stand in any order`() throws {
        let recipe = try Recipe.parse([
            "-s", "salt", "soup", "--heat", "high", "anna", "-s", "mace", "--for", "10m", "-vL", "ben", "--place", "-",
        ])
        #expect(recipe.spice == ["salt", "mace"])
        #expect(recipe.heat == .high)
        #expect(recipe.minutes == 10)
        #expect(recipe.verbose)
        #expect(recipe.kitchen.light)
        #expect(recipe.kitchen.place == "-")
        #expect(recipe.dish == "soup")
        #expect(recipe.guests == ["anna", "ben"])
    }

    @Test func `Behind two dashes everything is positional`() throws {
        let recipe = try Recipe.parse(["-v", "--", "-t", "--help"])
        #expect(recipe.dish == "-t")
        #expect(recipe.guests == ["--help"])
    }

    @Test func `Two runs of a command have values of their own`() throws {
        let first = try Recipe.parse(["soup", "-s", "salt"])
        let second = try Recipe.parse(["cake"])
        #expect(first.spice == ["salt"])
        #expect(second.spice == [])
    }

    @Test func `What is wrong is said with the place and what would be right`() {
        #expect(complaint("soup", "--temprature", "90") == "Unknown option '--temprature'. Did you mean '--temperature'?")
        #expect(complaint("soup", "--verbose=yes") == "The option '--verbose' takes no value, and 'yes' is given.")
        #expect(complaint("soup", "-x") == "Unknown option '-x'")
        #expect(complaint("soup", "-vx") == "Unknown option '-x'")
        #expect(complaint("soup", "-t") == "Missing value for '-t <degrees>'\nHelp:  -t <degrees>  Degrees.")
        #expect(
            complaint("soup", "--temperature", "-v")
                == "Missing value for '--temperature <degrees>'\nHelp:  --temperature <degrees>  Degrees.")
        #expect(complaint("soup", "-t", "hot") == "The value 'hot' is invalid for '-t <degrees>'\nHelp:  -t <degrees>  Degrees.")
        #expect(
            complaint("soup", "--heat", "warm")
                == "The value 'warm' is invalid for '--heat <heat>'. Please provide one of 'low' or 'high'.\nHelp:  --heat <heat>  How hot."
        )
        #expect(complaint("soup", "--for", "long") == "--for takes a time such as 10m.")
        #expect(complaint("soup", "--place", "nowhere") == "--place takes a place.")
        #expect(complaint() == "Missing expected argument '<dish>'")
    }

    @Test func `Whoever asks for help or the version gets it, whatever else is wrong`() {
        #expect(throws: CleanExit.help) { _ = try Recipe.parse(["--nonsense", "--help"]) }
        #expect(throws: CleanExit.help) { _ = try Recipe.parse(["-h"]) }
        #expect(throws: CleanExit.version) { _ = try Recipe.parse(["--version"], hasVersion: true) }
        #expect(complaint("soup", "--version") == "Unknown option '--version'")
    }

    @Test func `Options of every subcommand are found before its name`() {
        #expect(Recipe.Kitchen.countOfLeadingOptions(["--place", "home", "-L", "recipe", "soup"]) == 3)
        #expect(Recipe.Kitchen.countOfLeadingOptions(["--place=home", "recipe"]) == 1)
        #expect(Recipe.Kitchen.countOfLeadingOptions(["recipe", "--place", "home"]) == 0)
        #expect(Recipe.Kitchen.countOfLeadingOptions(["--other", "home"]) == 0)
        #expect(Recipe.Kitchen.countOfLeadingOptions(["--place"]) == 1)
    }

    @Test func `Help shows what there is, groups last`() {
        #expect(
            CommandPath([Book.self, Recipe.self]).help(columns: 60) == """
                OVERVIEW: Cook.

                USAGE: book recipe [--place <place>] [-L] [--temperature <degrees>] [--heat <heat>] [--for <for>] [-s <s> ...] [--verbose] <dish> [<guests> ...]

                ARGUMENTS:
                  <dish>                  The dish.
                  <guests>                Who eats.

                OPTIONS:
                  -t, --temperature <degrees>
                                          Degrees. (default: 180)
                  -H, --heat <heat>       How hot. (values: low, high)
                  --for <for>             How long.
                  -s <s>
                  -v, --verbose
                  --version               Show the version.
                  -h, --help              Show help information.

                KITCHEN:
                  --place <place>         Where. (default: home)
                  -L                      Leave the light on.

                """)
    }

    @Test func `Long lines are broken between words, and those that fit stay`() {
        let text = CommandPath([Book.self, Recipe.self]).help(columns: 46)
        #expect(text.split(separator: "\n").filter { !$0.hasPrefix("USAGE") }.allSatisfy { $0.count <= 46 })
    }

    @Test func `Every shell's script knows commands, options and values`() throws {
        for shell in ShellCompletions.shells {
            let script = try #require(ShellCompletions.script(for: shell, of: Book.self))
            for word in ["recipe", "temperature", "low", "high"] { #expect(script.contains(word), "\(shell) \(word)") }
        }
        #expect(ShellCompletions.script(for: "cmd", of: Book.self) == nil)
    }
}
