// A small test library with the names of xUnit, and the adapter by which `dotnet test` finds and runs its tests.
// xUnit itself cannot be fetched. An adapter sees tests and reports results; all else is the SDK's.

using System;
using System.Collections.Generic;
using System.Linq;
using System.Reflection;
using Microsoft.VisualStudio.TestPlatform.ObjectModel;
using Microsoft.VisualStudio.TestPlatform.ObjectModel.Adapter;
using Microsoft.VisualStudio.TestPlatform.ObjectModel.Logging;

namespace Xunit
{
    [AttributeUsage(AttributeTargets.Method)]
    public class FactAttribute : Attribute
    {
        public string Skip { get; set; }
    }

    [AttributeUsage(AttributeTargets.Method)]
    public class TheoryAttribute : FactAttribute
    {
    }

    [AttributeUsage(AttributeTargets.Method, AllowMultiple = true)]
    public class InlineDataAttribute : Attribute
    {
        public object[] Data { get; }

        public InlineDataAttribute(params object[] data) { Data = data; }
    }

    public static class Assert
    {
        public static void Equal<T>(T expected, T actual)
        {
            if (!Equals(expected, actual)) throw new Exception($"expected {expected}, found {actual}");
        }
    }
}

[DefaultExecutorUri(Executor.Name)]
[FileExtension(".dll")]
public class Discoverer : ITestDiscoverer
{
    public void DiscoverTests(
        IEnumerable<string> sources, IDiscoveryContext context, IMessageLogger logger, ITestCaseDiscoverySink sink)
    {
        foreach (var (test, _, _, _) in sources.SelectMany(Executor.Find)) sink.SendTestCase(test);
    }
}

[ExtensionUri(Executor.Name)]
public class Executor : ITestExecutor
{
    public const string Name = "executor://small/v1";

    public static IEnumerable<(TestCase, MethodInfo, object[], string)> Find(string source)
    {
        foreach (var method in Assembly.LoadFrom(source).GetTypes().SelectMany(type => type.GetMethods()))
        {
            var fact = method.GetCustomAttribute<Xunit.FactAttribute>();
            if (fact == null) continue;
            var rows = method.GetCustomAttributes<Xunit.InlineDataAttribute>().Select(row => row.Data);
            foreach (var row in rows.DefaultIfEmpty(null))
            {
                var name = $"{method.DeclaringType.FullName}.{method.Name}";
                var test = new TestCase(name, new Uri(Name), source) { DisplayName = name };
                if (row != null)
                {
                    var shown = method.GetParameters().Zip(row, (parameter, value) => $"{parameter.Name}: {value}");
                    test.DisplayName += $"({string.Join(", ", shown)})";
                }
                yield return (test, method, row, fact.Skip);
            }
        }
    }

    public void Cancel() { }

    public void RunTests(IEnumerable<TestCase> tests, IRunContext context, IFrameworkHandle handle)
    {
        RunTests(tests.Select(test => test.Source).Distinct(), context, handle);
    }

    public void RunTests(IEnumerable<string> sources, IRunContext context, IFrameworkHandle handle)
    {
        foreach (var (test, method, row, skip) in sources.SelectMany(Find))
        {
            handle.RecordStart(test);
            var result = new TestResult(test) { DisplayName = test.DisplayName, Outcome = TestOutcome.Passed };
            if (skip != null)
            {
                result.Outcome = TestOutcome.Skipped;
            }
            else
            {
                try
                {
                    method.Invoke(Activator.CreateInstance(method.DeclaringType), row);
                }
                catch (TargetInvocationException error)
                {
                    result.Outcome = TestOutcome.Failed;
                    result.ErrorMessage = error.InnerException.Message;
                }
            }
            handle.RecordEnd(test, result.Outcome);
            handle.RecordResult(result);
        }
    }
}
