import BrokerCore
import HTTP
import JSON
import MQTTCodec
import MartletTestKit
import Testing

@testable import Administration

/// A stream lasts as long as the right to read it.
@Suite(.serialized) struct StreamRightTests {
    /// A reader of every kind of stream.
    private static let paths = ["events", "log/stream", "traces/1/stream"]
    private static let ann: HTTPFields = ["Authorization": "Basic YW5uOnNlY3JldA=="]

    private let house: AdministrationHouse

    init() {
        house = AdministrationHouse()
        house.broker.users["ann"] = ("secret", .accepted(userName: "ann"))
        _ = house.send(.post, "traces", #"{"clientid":"c"}"#)
    }

    private func streams(_ fields: HTTPFields) throws -> [HTTPStream] {
        try Self.paths.map { path in
            guard case .stream(let stream) = house.send(.get, path, fields: fields).response.body else { throw Missing() }
            return stream
        }
    }

    private func token(_ name: String, expiresAt: UInt64? = nil) throws -> HTTPFields {
        let expiry = expiresAt.map { #","expires_at":"\#(Timestamp.text($0))""# } ?? ""
        let made = house.send(.post, "tokens", #"{"name":"\#(name)","role":"admin"\#(expiry)}"#)
        return ["Authorization": "Bearer \(try #require(made.object?["token"]?.string))"]
    }

    /// Logs in, and returns the cookie.
    private func cookie(_ body: String) throws -> HTTPFields {
        ["Cookie": String(try #require(house.send(.post, "session", body).fields["Set-Cookie"]).prefix { $0 != ";" })]
    }

    private func tick() {
        house.now += 1000
        house.administration.tick { house.moment }
    }

    private func areOpen(_ streams: [HTTPStream]) -> [Bool] { streams.map(\.isOpen) }

    private struct Missing: Error {}

    @Test func `a token that is revoked takes its streams and sessions with it, and nobody else's`() throws {
        let (mine, others) = (try token("a"), try token("b"))
        let ended = try streams(mine)
        let session = try cookie(#"{"token":"\#(try #require(mine["Authorization"]).dropFirst("Bearer ".count))"}"#)
        let left = try streams(others)
        #expect(house.send(.delete, "tokens/a").status == 204)
        #expect(areOpen(ended) == [false, false, false] && areOpen(left) == [true, true, true])
        #expect(house.send(.get, "session", fields: session).object?["role"]?.string == "admin", "of the listener, not the session")
        #expect(house.send(.get, "session", fields: session).object?["by"]?.string == "anonymous")
        // A new one of its name is another one.
        _ = try token("a")
        tick()
        #expect(areOpen(left) == [true, true, true])
    }

    @Test func `a token that expires ends its streams within a second`() throws {
        let streams = try streams(token("a", expiresAt: house.moment.wallMilliseconds + 60_000))
        house.now += 58_000
        tick()
        #expect(areOpen(streams) == [true, true, true])
        tick()
        #expect(areOpen(streams) == [false, false, false])
    }

    @Test func `a session's streams end with it, and keep it from being idle`() throws {
        house.configure { $0.users["ann"] = .admin }
        _ = house.send(.post, "traces", #"{"clientid":"c"}"#)
        let fields = try cookie(#"{"username":"ann","password":"secret"}"#)
        let first = try streams(fields)
        for _ in 0..<7 {
            house.now += 599_000
            tick()
        }
        #expect(areOpen(first)[0...1] == [true, true], "a trace has had its time")
        #expect(house.send(.get, "session", fields: fields).object?["by"]?.string == "session")
        #expect(house.send(.delete, "session", fields: fields).status == 204)
        #expect(areOpen(first) == [false, false, false])
    }

    @Test(arguments: [true, false])
    func `a user who may no more is told no more`(hasSession: Bool) throws {
        house.configure { $0.users["ann"] = .admin }
        _ = house.send(.post, "traces", #"{"clientid":"c"}"#)
        let ended = try streams(hasSession ? cookie(#"{"username":"ann","password":"secret"}"#) : Self.ann)
        let left = try streams([:])
        house.administration.endSessions(ofUsers: ["otto"])
        #expect(areOpen(ended) == [true, true, true])
        house.administration.endSessions(ofUsers: ["ann"])
        #expect(areOpen(ended) == [false, false, false] && areOpen(left) == [true, true, true])
    }

    @Test func `a user whose role is less ends what needs more within a second`() throws {
        house.broker.granted = ["ann write $CONTROL/martlet/v1"]
        let streams = try streams(Self.ann)
        house.broker.granted = ["ann read $CONTROL/martlet/v1"]
        tick()
        #expect(areOpen(streams) == [true, false, false], "a viewer may see events")
        house.broker.granted = ["otto read $CONTROL/martlet/v1"]
        tick()
        #expect(areOpen(streams) == [false, false, false])
    }

    @Test func `a reload ends all streams`() throws {
        let streams = try streams([:])
        house.configure { _ in }
        #expect(areOpen(streams) == [false, false, false])
    }
}
