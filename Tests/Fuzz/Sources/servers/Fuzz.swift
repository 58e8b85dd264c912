import FuzzKit
import Security
import Transports

@testable import LoginServices

/// The first byte says what the rest is: what a directory, a database or Redis says, whoever it is, which is read at
/// once and in pieces; or a filter of an operator's, with a user's name.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafeRawPointer, _ count: Int) -> CInt {
    var script = ByteScript(UnsafeRawBufferPointer(start: start, count: count))
    let choice = script.byte()
    if choice % 4 == 3 {
        let name = script.bytes(Int(script.byte()))
        checkFilter(String(decoding: script.remainder(), as: UTF8.self), user: name)
        return 0
    }
    let size = max(1, Int(script.byte()))
    let bytes = script.remainder()
    let conversations = [directory, database, redis]
    let ask = conversations[Int(choice % 4)]
    let whole = ask(connection(saying: bytes, inPiecesOf: max(1, bytes.count)))
    let cut = ask(connection(saying: bytes, inPiecesOf: size))
    expect(whole == cut, "in pieces \(cut), else \(whole)")
    return 0
}

/// Says what it has to whoever reads, piece by piece, and ends then.
private struct ScriptedChannel: ServerChannel {
    var rest: ArraySlice<UInt8>
    let size: Int

    mutating func put(_ layers: ClientLayers) {}

    mutating func exchange(_ output: inout ArraySlice<UInt8>, deadline: UInt64) -> [UInt8]? {
        if !output.isEmpty {
            output = []
            return []
        }
        guard !rest.isEmpty else { return nil }
        defer { rest = rest.dropFirst(size) }
        return Array(rest.prefix(size))
    }

    func close() {}
}

private let workers = WorkerPool(name: "none", threads: 1, queue: 1)

private func connection(saying bytes: [UInt8], inPiecesOf size: Int) -> ServerConnection {
    ServerConnection(over: ScriptedChannel(rest: bytes[...], size: size), deadline: .max, workers: workers)
}

// MARK: What is asked, and what is made of the answers

private func words(_ failure: SourceFailure) -> String {
    expect(!failure.description.isEmpty && failure.description.utf8.count < 1024, "the words \(failure)")
    expect(failure.description.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }, "a control byte in \(failure)")
    return failure.description
}

private func directory(_ connection: ServerConnection) -> [String] {
    var found: [String] = []
    do throws(SourceFailure) {
        let directory = try LDAPConnection(connection)
        try directory.become("cn=broker", password: [1])
        let answer = try directory.search("dc=x", [0x87, 1, 0x61], attributes: ["cn"], countMax: 2)
        expect(answer.entries.count <= 2, "\(answer.entries.count) entries of 2")
        for entry in answer.entries {
            found.append(entry.name)
            for (name, values) in entry.attributes { expect(entry.values(name.uppercased()) == values, "the attribute \(name)") }
        }
        found.append(words(answer.result.failure("the search")))
        found.append("\(try directory.compare("cn=x", "userPassword", [2]).code)")
        found.append("\(try directory.bind("cn=x", password: [2]).code)")
        let unproved = try directory.bind("cn=x", password: [])
        expect(unproved.code == LDAPResult.invalidCredentials, "a login without a password")
    } catch {
        found.append(words(error))
    }
    return found
}

private func database(_ connection: ServerConnection) -> [String] {
    var found: [String] = []
    do throws(SourceFailure) {
        let settings = PostgreSQLSettings(host: "h", port: 1, user: "u", password: "p", database: "d")
        let database = try PostgreSQLConnection(connection, settings)
        for _ in 0..<2 {
            let rows = try database.rows("SELECT $1", [[0, 255], []], rowsMax: 3, deadline: .max)
            expect(rows.count <= 3, "\(rows.count) rows of 3")
            found.append("\(rows)")
        }
    } catch {
        found.append(words(error))
    }
    return found
}

private func redis(_ connection: ServerConnection) -> [String] {
    var found: [String] = []
    do throws(SourceFailure) {
        let settings = RedisSettings(host: "h", port: 1, password: "p", database: 1)
        let redis = try RedisConnection(connection, settings)
        let words = [Array("SMEMBERS".utf8), [0x0D, 0x0A]]
        for answer in [try redis.command([Array("GET".utf8), [0]])] + (try redis.commands([words, words])) {
            if case .list(let values) = answer { expect(values.count <= 1000, "\(values.count) values") }
            found.append("\(answer)")
        }
    } catch {
        found.append(words(error))
    }
    return found
}

// MARK: What an operator writes, and a user's name in it

/// The tags of what is encoded, each with those in it: what a filter says but for its values.
private func shape(_ bytes: ArraySlice<UInt8>) -> String? {
    var reader = BERReader(bytes)
    var (text, read) = ("", 0)
    while let value = reader.next() {
        read += BER.value(value.tag, Array(value.content)).count
        text += "\(value.tag)"
        // Constructed; a value may look like anything.
        if value.tag & 0x20 != 0 {
            guard let inner = shape(value.content) else { return nil }
            text += "(\(inner))"
        }
        text += ","
    }
    return read == bytes.count ? text : nil
}

private func checkFilter(_ text: String, user: [UInt8]) {
    let plain = LDAPLogin(user: [0x75], entry: "uid=u,dc=x")
    let odd = LDAPLogin(user: user, entry: "uid=u,dc=x")
    do throws(LDAPTextError) {
        let filter = try LDAPFilter(text)
        let expected = shape(filter.encoded(for: plain)[...])
        expect(expected != nil, "\(filter) is encoded as what cannot be read")
        expect(shape(filter.encoded(for: odd)[...]) == expected, "the name \(user) changes \(filter)")
    } catch {
        expect(!error.words.isEmpty, "no words")
    }
    // A name is one value of an entry's name: no letter of it parts.
    func separators(_ name: String) -> Int {
        var (count, isEscaped) = (0, false)
        for byte in name.utf8 {
            if !isEscaped, ",+=;".utf8.contains(byte) { count += 1 }
            isEscaped = byte == UInt8(ascii: "\\") && !isEscaped
        }
        return count
    }
    let template = LDAPTemplate(Array("uid=%u,ou=x".utf8))
    expect(
        user.isEmpty || separators(template.entryName(for: odd)) == separators(template.entryName(for: plain)),
        "the name \(user) parts \(template.entryName(for: odd))")
}
