import ArgumentParsing
import BrokerModel
import Persistence

/// `martlet store backup`: copies a store.
struct StoreBackupCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Copy the store, as of its last commit, into a directory that has none.",
        usage: """
            martlet store backup DIRECTORY TARGET
            martlet store backup -c FILE TARGET
            """,
        discussion: "The copy is verified. To restore it, replace the store's files with it while the broker is stopped.")

    @OptionGroup var configuration: StoreConfiguration

    @Argument(help: ArgumentHelp("The store's directory, or with -c that of the copy.", valueName: "directory"))
    var first: String

    @Argument(help: ArgumentHelp("The copy's directory; created if it does not exist.", valueName: "target"))
    var second: String?

    func validate() throws { try configuration.require(or: second) }

    func run() throws {
        let target = second ?? first
        let (directory, name) = second == nil ? try configuration.location() : StorePlace.parts(first)
        let summary = try StoreFailure.told { () throws(StoreError) in
            try SQLiteStore.backup(directory, named: name, to: target)
        }
        let count = StoreTable.allCases.reduce(0) { $0 + summary.count(of: $1) }
        let commit = summary.commitNumber.map { ", as of commit \($0)" } ?? ""
        Console.say("Copied \(count) \(count == 1 ? "record" : "records") to \(target)\(commit).")
    }
}
