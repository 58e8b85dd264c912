import ClientCommands
import Glibc
import MartletServer
import Platform

/// The start of a client command: its arguments and its options file become what it is to do.
enum ClientCommandStart {
    /// Runs the command to the end of the process. Returns when the help is wanted.
    static func run(_ command: any ClientSubcommand.Type, _ words: [String]) {
        do throws(ArgumentError) {
            guard CommandLine.arguments.allSatisfy({ !$0.unicodeScalars.contains("\u{FFFD}") }) || argumentsAreText() else {
                throw ArgumentError.notText
            }
            let kind = command.command
            switch try ClientArguments.read(words, for: kind, defaults: try defaults(for: kind, words)) {
            case .run(let arguments): CommandProcess.run(arguments)
            case .version:
                Console.say("martlet version \(ProductVersion.text)")
                exit(EXIT_SUCCESS)
            case .help: return
            }
        } catch {
            Console.complain("\(error)\nSee 'martlet \(command.command.rawValue) --help' for more information.")
            exit(EXIT_FAILURE)
        }
    }

    private static func defaults(for command: ClientCommand, _ words: [String]) throws(ArgumentError) -> [OptionsFile.Line] {
        let environment = ConfigurationSource.environment
        guard let (path, mustExist) = try OptionsFile.path(for: command, words, variable: { environment[$0] }) else { return [] }
        do throws(WholeFile.Failure) {
            let bytes = try WholeFile.text(of: path, bytesMax: OptionsFile.bytesMax)
            return OptionsFile.lines(String(decoding: bytes, as: UTF8.self))
        } catch {
            guard mustExist else { return [] }
            throw ArgumentError.unreadable(path)
        }
    }

    /// What was given in other bytes would be sent in others than were given.
    private static func argumentsAreText() -> Bool {
        CommandLine.unsafeArgv.withMemoryRebound(to: UnsafeMutablePointer<CChar>?.self, capacity: Int(CommandLine.argc)) { words in
            (0..<Int(CommandLine.argc)).allSatisfy { words[$0].map { String(validatingCString: $0) != nil } ?? true }
        }
    }
}
