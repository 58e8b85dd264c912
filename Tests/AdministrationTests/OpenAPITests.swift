import Glibc
import HTTP
import JSON
import JSONReader
import Testing

@testable import Administration

/// The table of routes and `openapi.json` say the same.
@Suite struct OpenAPITests {
    private let description: JSONMembers

    init() throws {
        let path = #filePath.components(before: "/Tests/") + "/Sources/Administration/openapi.json"
        description = try #require(JSONValue(reading: Self.bytes(of: path)).object)
    }

    private func operations() throws -> [(path: String, method: String, operation: JSONMembers)] {
        let paths = try #require(description["paths"]?.object)
        return paths.names.flatMap { path in
            let methods = paths[path]?.object
            return (methods?.names ?? []).compactMap { name in methods?[name]?.object.map { (path, name, $0) } }
        }
    }

    @Test func `the file is what routes and resources make`() throws {
        let path = #filePath.components(before: "/Tests/") + "/Sources/Administration/openapi.json"
        let isSame = try Self.bytes(of: path) == APIDescription.bytes
        #expect(isSame, "make openapi writes it anew")
    }

    @Test func `what is named in the description is there, once`() throws {
        let names = SchemaCatalogue.all.map(\.name)
        #expect(Set(names).count == names.count)
        let text = String(decoding: APIDescription.bytes, as: UTF8.self)
        for reference in text.components(between: "#/components/schemas/", and: "\"") {
            #expect(names.contains(reference), "\(reference)")
        }
        for route in Route.table {
            guard let body = route.body else { continue }
            #expect(SchemaCatalogue.bodyMembers[body] != nil, "\(route.operation)")
        }
    }

    @Test func `every route is described, with its method, name and role`() throws {
        let described = try operations()
        for route in Route.table {
            let operation = try #require(
                described.first { $0.path == route.path && $0.method == route.method.rawValue.lowercased() }?.operation,
                "\(route.method) \(route.path) is not described")
            #expect(operation["operationId"]?.string == route.operation)
            #expect(operation["x-role"]?.string == route.need.rawValue)
            #expect((operation["requestBody"] != nil) == route.takesBody, "\(route.operation)")
            #expect(operation["security"]?.array?.isEmpty == (route.need == .nothing), "\(route.operation)")
        }
    }

    @Test func `every description is a route`() throws {
        for (path, method, operation) in try operations() {
            let name = operation["operationId"]?.string ?? ""
            #expect(Route.table.contains { $0.path == path && $0.method.rawValue.lowercased() == method }, "\(name)")
        }
    }

    @Test func `names are given once`() {
        #expect(Set(Route.table.map(\.operation)).count == Route.table.count)
        #expect(Set(Route.table.map { "\($0.method) \($0.path)" }).count == Route.table.count)
    }

    @Test func `parameters are the same`() throws {
        for (_, _, operation) in try operations() {
            guard let route = Route.table.first(where: { $0.operation == operation["operationId"]?.string }) else { continue }
            var inQuery: [String] = []
            var inPath: [String] = []
            for value in operation["parameters"]?.array ?? [] {
                let parameter = try #require(resolved(value)?.object)
                let name = try #require(parameter["name"]?.string)
                switch parameter["in"]?.string {
                case "path": inPath.append(name)
                case "query":
                    inQuery.append(name)
                    let known = try #require(route.parameters.first { $0.name == name }, "\(route.operation) \(name)")
                    #expect(parameter["required"]?.boolean ?? false == known.isRequired, "\(route.operation) \(name)")
                    #expect(try kind(of: parameter) == known.kind, "\(route.operation) \(name)")
                default: break
                }
            }
            #expect(inQuery == route.parameters.map(\.name), "\(route.operation)")
            #expect(
                inPath == route.pattern.compactMap { if case .argument(let name) = $0 { name } else { nil } }, "\(route.operation)")
        }
    }

    private func kind(of parameter: JSONMembers) throws -> RouteParameter.Kind {
        let schema = try #require(resolved(parameter["schema"])?.object)
        switch schema["type"]?.string {
        case "integer":
            if let numbers = schema["enum"]?.array { return .number(numbers.compactMap { $0.integer.map { Int($0) } }) }
            return .integer(Int(schema["minimum"]?.integer ?? 0)...(schema["maximum"]?.integer.map { Int($0) } ?? .max))
        case "boolean": return .boolean
        case "array":
            let items = try #require(resolved(schema["items"])?.object)
            return .choices(items["enum"]?.array?.compactMap(\.string) ?? [])
        default:
            if let words = schema["enum"]?.array { return .choice(words.compactMap(\.string)) }
            return .text(
                Int(schema["minLength"]?.integer ?? 0)...Int(schema["maxLength"]?.integer ?? Int64(Limits.textParameterBytesMax)))
        }
    }

    /// What a reference stands for.
    private func resolved(_ value: JSONValue?) -> JSONValue? {
        guard let reference = value?.object?["$ref"]?.string else { return value }
        var place: JSONValue? = .object(description)
        for part in reference.dropFirst(2).split(separator: "/") { place = place?.object?[String(part)] }
        return place
    }

    private static func bytes(of path: String) throws -> [UInt8] {
        let file = try #require(fopen(path, "r"))
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while case let count = fread(&buffer, 1, buffer.count, file), count > 0 { bytes += buffer[..<count] }
        return bytes
    }
}

extension String {
    fileprivate func components(before text: String) -> String {
        firstRange(of: text).map { String(self[..<$0.lowerBound]) } ?? self
    }

    /// What stands between two texts, at each place.
    fileprivate func components(between start: String, and end: String) -> [String] {
        var found: [String] = []
        var rest = self[...]
        while let place = rest.firstRange(of: start) {
            rest = rest[place.upperBound...]
            guard let last = rest.firstRange(of: end) else { break }
            found.append(String(rest[..<last.lowerBound]))
        }
        return found
    }
}
