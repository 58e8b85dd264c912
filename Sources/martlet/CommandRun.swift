import ArgumentParsing
import Glibc
import JSON
import MartletServer
import Platform

/// One run of the command with its arguments: finds the subcommand that is meant, runs it, and ends the process with what comes of it.
enum CommandRun {
    static func run(_ root: any ParsableCommand.Type, _ arguments: [String]) -> Never {
        answerShell(root, arguments)
        var path = CommandPath([root])
        var words = arguments
        if words.first == "help" {
            words.removeFirst()
            while let next = subcommand(of: path, &words) { path = path.down(to: next) }
            end(path, with: CleanExit.help)
        }
        // What follows a subcommand's name is its alone, also where the broker has options of the same letters, such as -c and -p.
        while let next = subcommand(of: path, &words) { path = path.down(to: next) }
        if words == [description] { describe(path) }
        if let client = path.command as? any ClientSubcommand.Type {
            ClientCommandStart.run(client, words)
            end(path, with: CleanExit.help)
        }
        do {
            try start(path.command, words)
            exit(EXIT_SUCCESS)
        } catch {
            end(path, with: error)
        }
    }

    /// Makes the program describe a command as JSON, of which the manual is made.
    private static let description = "--help-json"
    private static let completionScript = "--generate-completion-script"

    /// With what the broker ends when its options or its configuration are wrong, as mosquitto does.
    private static let wrongStart: Int32 = 3

    private static func start(_ command: (some ParsableCommand).Type, _ words: [String]) throws {
        let configuration = command.configuration
        try command.parse(words, hasShortHelp: configuration.hasShortHelp, hasVersion: configuration.version != nil).run()
    }

    /// Takes the next word away, which names a subcommand, and leaves options that may stand before it behind it. nil when it is an
    /// option, or there are no subcommands. Ends the process for a name that is none.
    private static func subcommand(of path: CommandPath, _ words: inout [String]) -> (any ParsableCommand.Type)? {
        let subcommands = path.configuration.subcommands
        guard !subcommands.isEmpty else { return nil }
        let leading = path.configuration.optionsBeforeSubcommand?.countOfLeadingOptions(words) ?? 0
        guard leading < words.count, !words[leading].hasPrefix("-") else { return nil }
        let word = words[leading]
        guard let chosen = subcommands.first(where: { $0.configuration.commandName == word }) else { complain(path, of: word) }
        words.remove(at: leading)
        return chosen
    }

    private static func complain(_ path: CommandPath, of word: String) -> Never {
        let names = path.configuration.subcommands.map { $0.configuration.commandName } + ["help"]
        var text = "Error: There is no command '\(path.name) \(word)'."
        if let nearest = NearestName.nearest(to: word, among: names + Array(misnomers.keys)) {
            text += " Did you mean '\(path.name) \(misnomers[nearest] ?? nearest)'?"
        } else if path.commands.count == 1, access(word, F_OK) == 0 {
            text += " To start the broker with a configuration file, type: martlet -c \(word)"
        } else {
            text += " There are: \(names.joined(separator: ", "))."
        }
        Console.complain("\(text)\nSee '\(path.name) --help' for more information.")
        exit(path.commands.count == 1 ? wrongStart : EX_USAGE)
    }

    /// Says what there is to say of an error, or of a wish for help, and ends.
    private static func end(_ path: CommandPath, with error: any Error) -> Never {
        switch error {
        case CleanExit.help:
            Console.say(path.help())
            exit(EXIT_SUCCESS)
        case CleanExit.version:
            Console.say(path.configuration.version ?? "")
            exit(EXIT_SUCCESS)
        case let code as ExitCode:
            exit(code.rawValue)
        default:
            Console.complain(path.complaint(error))
            exit(path.commands.count == 1 || path.command is Serve.Type ? wrongStart : EX_USAGE)
        }
    }

    private static func describe(_ path: CommandPath) -> Never {
        var writer = JSONWriter()
        writer.object { object in object.object("command") { path.describe(&$0) } }
        Console.say(String(decoding: writer.bytes, as: UTF8.self))
        exit(EXIT_SUCCESS)
    }

    /// Writes a shell's script, or answers what such a script asks; returns when it is neither.
    private static func answerShell(_ root: any ParsableCommand.Type, _ arguments: [String]) {
        if arguments.first == completionScript {
            let shell = arguments.count > 1 ? arguments[1] : ""
            guard let script = ShellCompletions.script(for: shell, of: root) else {
                Console.complain("Error: \(completionScript) takes one of: \(ShellCompletions.shells.joined(separator: ", ")).")
                exit(EX_USAGE)
            }
            Console.put(script, to: 1)
            exit(EXIT_SUCCESS)
        }
        if arguments.first == ShellCompletions.question, let mark = arguments.lastIndex(of: "--"), mark > 0 {
            let prefix = mark + 1 < arguments.count ? arguments[mark + 1] : ""
            for word in ShellCompletions.answer(root, Array(arguments[1..<mark]), prefix: prefix) { Console.say(word) }
            exit(EXIT_SUCCESS)
        }
    }

    /// What some call a command, and what it is called.
    private static let misnomers = [
        "password": "passwd", "run": "serve", "start": "serve", "benchmark": "bench", "publish": "pub", "subscribe": "sub",
        "control": "ctl", "rr": "request", "import": "import-config",
    ]
}
