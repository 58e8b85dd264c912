import ArgumentParsing
import BrokerModel
import Persistence

/// `martlet store check`: reads all of a store and says whether it is whole.
struct StoreCheckCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Verify every record, and say how many there are; exits with 1 if anything is wrong.")

    @OptionGroup var place: StorePlace

    func run() throws {
        let (directory, name) = try place.path()
        let summary = try StoreFailure.told { () throws(StoreError) in
            try SQLiteStore.check(directory, named: name) { $0.hasMeaning(key: $1, body: $2) }
        }
        for damage in summary.damages { Console.complain("\(damage)") }
        let state = summary.damages.isEmpty ? "is whole" : "is damaged"
        Console.say("The store in \(directory) \(state)\(summary.commitNumber.map { ", as of commit \($0)" } ?? ""). Records:")
        for table in StoreTable.allCases {
            let name = table.name + String(repeating: " ", count: 14 - table.name.count)
            Console.say("  \(name)\(summary.count(of: table))")
        }
        if !summary.damages.isEmpty { throw ExitCode(1) }
    }
}
