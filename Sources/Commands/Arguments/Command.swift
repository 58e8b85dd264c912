/// A set of arguments: options, flags and positional arguments as wrapped properties, in the order in which help shows
/// them.
///
///     struct Copies: ParsableArguments {
///         @Flag(name: .shortAndLong, help: "Say what is done.")
///         var verbose = false
///
///         @Argument(help: "How many.")
///         var count = 1
///     }
package protocol ParsableArguments: SendableMetatype {
    init()

    /// Throws `ValidationError` when the arguments contradict each other.
    func validate() throws

    /// What the command line may say; by default the wrapped properties.
    func definitions() -> [ArgumentDefinition]
}

extension ParsableArguments {
    package func validate() throws {}

    package func definitions() -> [ArgumentDefinition] { ArgumentDefinition.all(in: self) }
}

/// A command, or one below it.
package protocol ParsableCommand: ParsableArguments {
    static var configuration: CommandConfiguration { get }

    func run() throws
}

extension ParsableCommand {
    /// A command that only has others below it shows its help.
    package func run() throws { throw CleanExit.help }
}

/// What a command is called, and what help says of it.
package struct CommandConfiguration: Sendable {
    package var commandName: String
    package var abstract: String
    /// Lines in place of those that are made of the arguments.
    package var usage: String?
    package var discussion: String
    /// What `--version` prints; nil if there is none.
    package var version: String?
    package var shouldDisplay: Bool
    package var subcommands: [any ParsableCommand.Type]
    /// Options of every subcommand that may also stand before its name.
    package var optionsBeforeSubcommand: (any ParsableArguments.Type)?
    /// Whether -h asks for help, as --help does.
    package var hasShortHelp: Bool

    package init(
        commandName: String, abstract: String = "", usage: String? = nil, discussion: String = "", version: String? = nil,
        shouldDisplay: Bool = true, subcommands: [any ParsableCommand.Type] = [],
        optionsBeforeSubcommand: (any ParsableArguments.Type)? = nil, hasShortHelp: Bool = true
    ) {
        self.commandName = commandName
        self.abstract = abstract
        self.usage = usage
        self.discussion = discussion
        self.version = version
        self.shouldDisplay = shouldDisplay
        self.subcommands = subcommands
        self.optionsBeforeSubcommand = optionsBeforeSubcommand
        self.hasShortHelp = hasShortHelp
    }
}

/// Ends the process with this code, and without a word: what was to be said has been said.
package struct ExitCode: Error, Hashable {
    package let rawValue: Int32

    package init(_ rawValue: Int32) { self.rawValue = rawValue }
}

/// The arguments contradict each other, or one of them cannot be.
package struct ValidationError: Error, Hashable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}

/// Ends the command well before it has begun.
package enum CleanExit: Error, Hashable {
    case help
    case version
}
