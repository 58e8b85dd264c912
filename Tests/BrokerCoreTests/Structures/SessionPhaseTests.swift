import MQTTCodec
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// What a shard keeps of sessions of which something is under way in a cluster.
@Suite struct SessionPhaseTests {
    private let session = Session(index: 3, generation: 4, key: 5, clientIdentifier: "client", publisherKey: 1)

    @Test func `a session stands among those under way while it is not whole, or the log may know more of it`() {
        let moves = SessionMoves()
        #expect(session.phase.isWhole && session.opening.isKnown && !session.isMoving && !session.isReplaying)
        moves.change(phaseOf: session, to: .importing)
        #expect(moves.underWay[5] === session && session.isMoving)
        moves.change(openingOf: session) { $0.mark = SessionOpening.Mark(unread: [0]) }
        moves.change(phaseOf: session, to: .whole)
        #expect(moves.underWay[5] === session && !session.isMoving && !session.opening.isKnown)
        moves.change(openingOf: session) { $0.mark = nil }
        #expect(moves.underWay.isEmpty)
        moves.change(phaseOf: session, to: .importing)
        moves.endAll(of: session)
        #expect(moves.underWay.isEmpty && session.phase.isWhole && session.extras?.underWay == nil)
    }

    @Test func `the phase tells what of the session there is, and nothing else`() {
        let moves = SessionMoves()
        let places = LogPositions(partitions: 1)
        let export = SessionExport(session, places: places, done: nil)
        moves.change(phaseOf: session, to: .exporting(export))
        #expect(session.isMoving && session.export === export && session.replay == nil && !session.isReplaying)
        let replay = LogReplay(session, through: places)
        moves.change(phaseOf: session, to: .replaying(replay))
        #expect(!session.isMoving && session.export == nil && session.replay === replay && session.isReplaying)
        #expect(!session.isRestored)
        replay.restoration = SessionRestoration(SessionRestoration.Saved(epoch: 1), partition: 0)
        #expect(session.isRestored)
        moves.change(phaseOf: session, to: .replaying(nil))
        #expect(session.isReplaying && session.replay == nil && !session.isRestored)
    }

    @Test func `a Client Identifier has an entry while a client waits, or its session comes`() {
        let moves = SessionMoves()
        let connection = ConnectionID(slot: 1, generation: 1)
        moves["client"].claim = ComingSession.Claim(connection: connection, cleanStart: true)
        moves["client"].sessionImport = SessionImport(epoch: 7)
        #expect(moves.coming.count == 1 && moves.takeClaim(of: "client")?.connection == connection)
        #expect(moves.coming.count == 1 && moves.takeClaim(of: "client") == nil)
        moves["client"].sessionImport = nil
        #expect(moves.coming.isEmpty && moves["client"].isEmpty)
    }
}
