// Loads the element from where the explorer stands, whatever chapter this is.
{
  const script = document.createElement('script');
  script.src = new URL('kv/embed.js', document.currentScript.src);
  document.head.append(script);
}
